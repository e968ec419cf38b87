"""Real jax.distributed: processes are grouped by the parts of the batch that they hold."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, free_port, need

from elastic_sampler import Permutation

PROGRAM = Path(__file__).with_name("jax_mesh_rank.py")


@pytest.fixture
def ranks(processes: Processes) -> list[dict[str, Any]]:
    """What each of four processes found."""
    need(find_spec("jax"), "needs JAX: the extra `jax`")
    port = free_port()
    started = [
        processes.start(
            f"process {rank}",
            [sys.executable, PROGRAM, str(port), str(rank)],
            {"JAX_PLATFORMS": "cpu"},
        )
        for rank in range(4)
    ]
    found = []
    for process in started:
        assert 0 == process.wait(240), process.output
        found.append(json.loads(process.output.splitlines()[-1]))
    return found


def test_processes_are_ranks_of_the_data_by_the_parts_of_the_batch_that_they_hold(
    ranks: list[dict[str, Any]],
) -> None:
    def all_of(name: str) -> list[Any]:
        return [rank[name] for rank in ranks]

    assert [[rank, 4] for rank in range(4)] == all_of("detected")
    # A process has two devices. Mesh and sharding (along rows, along columns) say the same.
    for name, expected in {
        "data 2, model 4": [[0, 2], [0, 2], [1, 2], [1, 2]],
        "data 4, model 2": [[0, 4], [1, 4], [2, 4], [3, 4]],
        "data 8": [[0, 4], [1, 4], [2, 4], [3, 4]],
        "model 8": [[0, 1]] * 4,
        "replica 2, shard 2": [[0, 4], [1, 4], [2, 4], [3, 4]],
        "interleaved": [[0, 4], [1, 4], [2, 4], [3, 4]],
    }.items():
        assert [[pair] * 3 for pair in expected] == all_of(name), name
    assert [[rank, 4] for rank in range(4)] == all_of("one axis")
    assert [[0, 1]] * 4 == all_of("replicated")
    assert "JAX mesh, data 2, process 3 of 4" == ranks[3]["source"]
    assert "JAX sharding of (24, 64), axis 0, process 3 of 4" == ranks[3]["sharding's source"]

    for said in chain.from_iterable(all_of("overlapping")):
        assert "WorldRefusedError: JAX " in said
        assert "two processes hold parts that are neither the same nor disjoint" in said
    for rank, answers in enumerate(all_of("unequal")):
        why = "parts of different sizes" if rank < 2 else f"process {rank} has no device in it"
        assert all(why in said for said in answers)
    assert "got () of a mesh with axes ('data', 'model')" in ranks[0]["no axes"]
    assert "got ('date',) of a mesh with axes" in ranks[0]["no such axis"]
    assert "axis must be in [0, 2), got 2 of shape (8, 64)" in ranks[0]["no such dimension"]


def test_global_arrays_have_one_shape_and_each_sample_of_the_epoch_in_every_layout(
    ranks: list[dict[str, Any]],
) -> None:
    order = list(Permutation(100, 0, 0))
    filled = order + order[: -100 % 8]
    expected = [sorted(filled[i : i + 8]) for i in range(0, len(filled), 8)]

    for rank in ranks:
        for steps in rank["arrays"]:
            assert expected == [sorted(step) for step in steps]
