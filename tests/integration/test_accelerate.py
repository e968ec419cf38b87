"""Hugging Face Accelerate, with two real ranks."""

from __future__ import annotations

from pathlib import Path

from integration.conftest import Processes
from integration.frameworks import STEPS, installed, ranks, resized_job_is_exact

RANK = Path(__file__).with_name("accelerate_rank.py")


def test_a_job_of_accelerate_killed_and_resized_in_mid_epoch_trains_each_sample_once(
    processes: Processes,
) -> None:
    installed("accelerate")
    resized_job_is_exact(processes, RANK)


def test_a_loader_that_accelerate_has_prepared_is_noticed(processes: Processes) -> None:
    installed("accelerate")
    for process in ranks(processes, RANK, 2, "prepared"):
        assert 1 == process.wait(120), process.output
        assert "LoaderMismatchError: the loader" in process.output
        assert "29 batches, but this rank's share is 57 batches" in process.output
        assert "no prepare() of the loader (Accelerate)" in process.output


def test_a_loader_prepared_on_one_rank_that_gives_up_a_loaded_position_is_told(
    processes: Processes,
) -> None:
    installed("accelerate")
    (killed,) = ranks(processes, RANK, 1, 0, STEPS + 20)
    assert killed.wait(120), killed.output
    (prepared,) = ranks(processes, RANK, 1, "prepared")
    assert 0 == prepared.wait(120), prepared.output
    assert "ResumeWarning: set_epoch(0) after loading a state of epoch 1" in prepared.output
