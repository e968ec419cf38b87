"""Killed with SIGKILL at random, twenty times in one epoch, and resumed at other world sizes."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler import audit

JOB = Path(__file__).with_name("killed_at_random_job.py")

ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}

SEED = 3
N, KILLS = 1999, 20  # as in the job
PLACES = {"sampler": None, "batch_sampler": 10}  # its global batch


@pytest.mark.parametrize("kind", PLACES)
def test_a_job_killed_at_random_twenty_times_trains_every_sample_once(
    kind: str, processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("torch"), "needs torch: extra `test`")
    job = processes.start(kind, [sys.executable, JOB, kind, str(SEED), tmp_path], ENVIRON)
    assert 0 == job.wait(120), f"seed {SEED}:\n{job.output}"
    runs: list[dict[str, Any]] = json.loads(job.output.splitlines()[-1])
    story = f"seed {SEED}: {runs}"

    assert KILLS + 1 == len(runs), story
    assert {1, 2, 3, 4} == {run["size"] for run in runs}, story
    begun = [run["position"] for run in runs if run["position"] is not None]
    assert sorted(begun) == begun, story
    # The kills were in the middle of the epoch, some of them between a checkpoint and the next.
    assert len(set(begun)) > KILLS // 2, story
    assert 0 < begun[-1] < N, story

    report = audit(tmp_path.glob("*.jsonl"), N, places=PLACES[kind])
    assert report.exact, f"{story}\n{report}"
    (epoch,) = report.epochs
    assert N == epoch.trained - len(epoch.tail)
    assert report.redone > 0, story
