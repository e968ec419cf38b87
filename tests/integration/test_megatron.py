"""Megatron's data-parallel group, without context parallelism, is the world of the data."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

from integration.conftest import Processes, need

PROGRAM = Path(__file__).with_name("megatron_rank.py")
ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}


def test_ranks_of_tensor_and_context_parallelism_share_the_samples_of_their_model(
    processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("megatron"), "needs Megatron: pip install megatron-core")
    started = [
        processes.start(f"rank {rank}", [sys.executable, PROGRAM, str(rank), tmp_path], ENVIRON)
        for rank in range(8)
    ]
    found = []
    for process in started:
        assert 0 == process.wait(240), process.output
        found.append(json.loads(process.output.splitlines()[-1]))

    # Tensor and context parallelism take four ranks in a row.
    first, second = [0, 2, [0, 2, 4, 6, 8]], [1, 2, [1, 3, 5, 7, 9]]
    assert [first] * 4 + [second] * 4 == found
