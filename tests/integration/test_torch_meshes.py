"""Real gloo groups and device meshes: parts of one model get the same samples."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler import audit

PROGRAM = Path(__file__).with_name("torch_mesh_rank.py")
ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


@pytest.fixture
def ranks(processes: Processes, tmp_path: Path) -> list[dict[str, Any]]:
    """What each of eight processes found."""
    need(find_spec("torch"), "needs torch: the extra `test`")
    started = [
        processes.start(f"rank {rank}", [sys.executable, PROGRAM, str(rank), tmp_path], ENVIRON)
        for rank in range(8)
    ]
    found = []
    for process in started:
        assert 0 == process.wait(240), process.output
        found.append(json.loads(process.output.splitlines()[-1]))
    return found


def test_ranks_that_hold_parts_of_one_model_are_one_rank_of_the_data(
    ranks: list[dict[str, Any]], tmp_path: Path
) -> None:
    def all_of(name: str) -> list[Any]:
        return [rank[name] for rank in ranks]

    # Global rank = pp * 4 + dp * 2 + tp.
    dp = [[rank // 2 % 2, 2] for rank in range(8)]
    assert [dp] * 3 == [all_of(name) for name in ("dp", "group of dp", "slice")]
    # Two axes that divide the data, in the mesh's order; the last one is tensor parallel.
    hsdp = [[rank // 2, 4] for rank in range(8)]
    assert [hsdp] * 3 == [all_of(name) for name in ("replicate, shard", "shard, replicate", "flat")]
    assert [[0, 1]] * 8 == all_of("size 1")
    assert [[rank, 8] for rank in range(8)] == all_of("nameless") == all_of("everybody")
    assert "device mesh, replicate 2 x shard 2, global rank 5" == ranks[5]["source"]
    assert all("process group '" in source for source in all_of("group's source"))

    # Whoever is outside has no share.
    inside = [[rank // 2, 2] for rank in range(4)]
    assert list(map(str, inside)) == all_of("half")[:4]
    for rank, said in enumerate(all_of("half")[4:], 4):
        assert f"WorldRefusedError: global rank {rank} is not in this device mesh" in said
    members = all_of("members")
    assert ["[0, 3]", "[1, 3]", "[2, 3]"] == [members[rank] for rank in (1, 3, 5)]
    for rank in (0, 2, 4, 6, 7):
        said = f"WorldRefusedError: global rank {rank} is not in this process group"
        assert said in members[rank]

    for said in all_of("no group"):
        assert "TypeError: group must be a process group, got None" in said
    for name, got in [
        ("no axes", "()"),
        ("no such axis", "('dp', 'ep')"),
        ("axis twice", "('dp', 'dp')"),
    ]:
        assert f"got {got} of a mesh with axes ('pp', 'dp', 'tp')" in ranks[0][name]

    # The epoch, dealt along "dp": parts of a model train the same, and all together every sample.
    assert dp == all_of("pickled")
    shares = all_of("share")
    assert [shares[rank // 2 % 2 * 2] for rank in range(8)] == shares
    report = audit(tmp_path.glob("*.jsonl"), 100)
    assert report.exact, str(report)
    assert [100] == [epoch.trained for epoch in report.epochs]
