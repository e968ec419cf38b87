"""Ray Train's TorchTrainer with two real ranks, and its prepare_data_loader."""

from __future__ import annotations

import sys
from pathlib import Path

from integration.conftest import Processes
from integration.frameworks import assert_exact, installed

JOB = Path(__file__).with_name("ray_job.py")

ENVIRON = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # so that every address is one of the loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    # Less to start and to wait for: a report takes up to an interval.
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.1",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
    "RAY_TRAIN_ENABLE_STATE_ACTOR_RECONCILIATION": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
}


def test_a_ray_job_resized_in_mid_epoch_is_exact_and_a_sampler_that_ray_replaces_is_noticed(
    processes: Processes, tmp_path: Path
) -> None:
    installed("ray", "torch")
    job = processes.start("ray job", [sys.executable, JOB, tmp_path], ENVIRON)
    assert 0 == job.wait(240), job.output
    assert_exact(tmp_path, redone=2 * 5 + 5)

    for rank in range(2):
        found = (tmp_path / f"wrong-{rank}.txt").read_text()
        assert "the first batch did not come from this sampler" in found
        assert "prepare_data_loader(add_dist_sampler=False) (Ray)" in found
