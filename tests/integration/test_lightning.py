"""PyTorch Lightning, with two real ranks."""

from __future__ import annotations

import json
from pathlib import Path

from integration.conftest import Processes
from integration.frameworks import installed, ranks, resized_job_is_exact

RANK = Path(__file__).with_name("lightning_rank.py")


def test_a_lightning_job_killed_and_resized_in_mid_epoch_trains_each_sample_once(
    processes: Processes,
) -> None:
    installed("lightning")
    resized_job_is_exact(processes, RANK)


def test_a_sampler_that_lightning_replaces_is_noticed(processes: Processes) -> None:
    installed("lightning")
    for process in ranks(processes, RANK, 2, "wrong"):
        assert 0 == process.wait(120), process.output
        found = json.loads(process.output.splitlines()[-1])

        mismatch = found["Fabric, tracked"]
        assert "29 batches, but this rank's share is 899 indices" in mismatch
        assert "use_distributed_sampler=False (Lightning)" in mismatch
        assert "Trainer(use_distributed_sampler=False)" in found["batch sampler"]
        # A loader that nobody tracks: half of the data is lost, and nobody notices.
        assert [450, 899] == found["trained of the rank's share, not tracked"]
