"""Resizes in live processes: a step fails, the gloo group is destroyed and made anew, 3 → 2 → 3."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler import audit

PROCESS = Path(__file__).with_name("live_resize_rank.py")

N, GLOBAL_BATCH = 1797, 64

ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def test_a_failed_step_and_resizes_in_live_processes_lose_nothing_and_train_nothing_twice(
    processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("torch") and find_spec("sklearn"), "needs torch and scikit-learn: extra `test`")
    command: list[str | Path] = [sys.executable, "-W", "ignore", PROCESS]
    started = [
        processes.start(f"process {number}", [*command, str(number), tmp_path], ENVIRON)
        for number in range(3)
    ]
    found: list[dict[str, Any]] = []
    for process in started:
        assert 0 == process.wait(120), process.output
        found.append(json.loads(process.output.splitlines()[-1]))
    first, second, third = found

    # Rank and world size, asked anew of each group; the one who left was rank 0.
    assert [[0, 3], [2, 3]] == first["worlds"]
    assert [[1, 3], [0, 2], [0, 3]] == second["worlds"]
    assert [[2, 3], [1, 2], [1, 3]] == third["worlds"]
    assert [1, 0, 0] == [process["lost"] for process in (first, second, third)]

    # Step 11 fails in one process, and so does everybody's collective: back to the commit of 9.
    assert [["StepFailed"], ["RuntimeError"], ["RuntimeError"]] == [
        process["failed"] for process in (first, second, third)
    ]
    begun = [[0, step * GLOBAL_BATCH, step] for step in (0, 9, 21)]  # epoch, position, step
    assert [begun[0], begun[2]] == first["began"]
    assert begun == second["began"] == third["began"]

    report = audit(tmp_path.glob("*.jsonl"), N, tail="fill", places=GLOBAL_BATCH)
    assert report.exact, str(report)
    steps, rest = -(-N // GLOBAL_BATCH), -N % GLOBAL_BATCH
    assert [(0, steps, rest), (1, steps, rest)] == [
        (epoch.epoch, epoch.steps, len(epoch.tail)) for epoch in report.epochs
    ]
    assert 3 == report.redone  # step 10, of three ranks

    # Unequal parts, micro-batches, a failed step, resizes: the model of one undisturbed process.
    assert first["weights"] == second["weights"] == third["weights"]
    assert first["undisturbed"] == pytest.approx(first["weights"], rel=0, abs=1e-12)
