"""The Trainer of Hugging Face transformers, with two real ranks."""

from __future__ import annotations

from pathlib import Path

from integration.conftest import Processes
from integration.frameworks import installed, ranks, resized_job_is_exact

RANK = Path(__file__).with_name("trainer_rank.py")


def test_a_job_of_the_trainer_killed_and_resized_in_mid_epoch_trains_each_sample_once(
    processes: Processes,
) -> None:
    installed("accelerate", "transformers")
    resized_job_is_exact(processes, RANK)


def test_a_loader_that_the_trainer_has_prepared_is_noticed(processes: Processes) -> None:
    installed("accelerate", "transformers")
    for process in ranks(processes, RANK, 2, "prepared"):
        assert 1 == process.wait(120), process.output
        assert "LoaderMismatchError: the loader" in process.output
        assert "29 batches, but this rank's share is 57 batches" in process.output
        assert "no prepare() of the loader (Accelerate)" in process.output
