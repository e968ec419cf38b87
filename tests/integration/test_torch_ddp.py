"""Real gloo groups: made after the sampler, destroyed, made anew; and DistributedDataParallel."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler import audit

RANK = Path(__file__).with_name("torch_ddp_rank.py")

ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def run(processes: Processes, program: str, count: int, directory: Path) -> list[dict[str, Any]]:
    """What each of the processes found."""
    need(find_spec("torch") and find_spec("sklearn"), "needs torch and scikit-learn: extra `test`")
    started = [
        processes.start(
            f"rank {rank}", [sys.executable, RANK, program, str(rank), directory], ENVIRON
        )
        for rank in range(count)
    ]
    found = []
    for process in started:
        assert 0 == process.wait(120), process.output
        found.append(json.loads(process.output.splitlines()[-1]))
    return found


def test_a_sampler_follows_the_groups_that_its_process_is_in(
    processes: Processes, tmp_path: Path
) -> None:
    first, second, newcomer = run(processes, "live", 3, tmp_path)

    # Made before any group was, and asked: its len() was that of a lone process, and it says so.
    assert [1000] * 3 == [rank["len without a group"] for rank in (first, second, newcomer)]
    for rank in (first, second):
        (warning,) = rank["warned"]
        assert warning.startswith("WorldChangedWarning: len() was 1000 when no provider knew")
        assert "500 on each of 2 ranks (torch.distributed, default group)" in warning

    # rank, world size, what is left for this rank: 1000 / 2, 800 / 3, 500.
    assert [[0, 2, 500], [0, 3, 267], [0, 1, 500]] == first["worlds"]
    assert [[1, 2, 500], [1, 3, 267]] == second["worlds"]
    assert [[2, 3, 267]] == newcomer["worlds"]

    # Between groups nobody is rank 0 of 1: neither an iterator nor a length.
    for rank in (first, second, newcomer):
        assert 2 * len(rank["worlds"]) == len(rank["lost"])
        assert all("a process group was destroyed" in message for message in rank["lost"])

    report = audit(tmp_path.glob("*.jsonl"), 1000)
    assert report.exact, str(report)
    assert [1000] == [epoch.trained for epoch in report.epochs]
    assert 0 == report.redone


def test_training_resized_in_mid_epoch_ends_with_the_model_of_training_that_never_was(
    processes: Processes, tmp_path: Path
) -> None:
    first, second = run(processes, "train", 2, tmp_path)
    assert 20 * 2 * 16 == first["position"] == second["position"]
    assert first["weights"] == second["weights"]

    # Each step consumes the same samples at both world sizes: only the order of sums differs.
    assert first["away"] == pytest.approx(0, abs=1e-4)
    assert first["accuracy"] > 0.9

    report = audit(tmp_path.glob("*.jsonl"), 1797)
    assert report.exact, str(report)
    assert [1797, 1797] == [epoch.trained for epoch in report.epochs]
    assert 0 == report.redone
