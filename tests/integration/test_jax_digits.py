"""Real jax.distributed: the example is stopped in mid-epoch and goes on with 1, and with 3.

The job is `examples/jax_digits.py`, as it stands. What is claimed is read from its logs.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from integration.conftest import Processes, free_port, need

from elastic_sampler import Permutation, audit
from elastic_sampler.sample_log import Entry, read_log

EXAMPLE = Path(__file__).parents[2] / "examples" / "jax_digits.py"

TRAIN_SAMPLES, EPOCHS, G, CHECKPOINT_EVERY = 1500, 6, 48, 10
STEPS = -(-TRAIN_SAMPLES // G)  # of an epoch; the last one is filled up


def run(processes: Processes, job: Path, world_size: int, stop_after: int | None = None) -> str:
    """Run the job as so many processes; what process 0 said."""
    port = free_port()
    common = [EXAMPLE, "--directory", job, "--epochs", EPOCHS, "--global-batch-size", G]
    common += ["--checkpoint-every", CHECKPOINT_EVERY, "--processes", world_size]
    common += ["--coordinator", f"127.0.0.1:{port}"]
    common += [] if stop_after is None else ["--stop-after", stop_after]
    started = [
        processes.start(
            f"{len(processes.started)}: process {i} of {world_size}",
            [sys.executable, *map(str, [*common, "--process", i])],
            {"JAX_PLATFORMS": "cpu"},
        )
        for i in range(world_size)
    ]
    for process in started:
        assert 0 == process.wait(120), process.output
    return started[0].output


def global_batches(entries: list[Entry], run: int) -> dict[tuple[int, int], list[int]]:
    """The samples of each step of a run, whoever trained them."""
    found: dict[tuple[int, int], list[int]] = {}
    for entry in entries:
        if entry.run == run:
            found.setdefault((entry.epoch, entry.step), []).extend(entry.samples)
    return {step: sorted(samples) for step, samples in found.items()}


def test_a_job_of_2_stopped_in_mid_epoch_goes_on_with_1_and_then_with_3(
    processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("jax") and find_spec("sklearn"), "needs JAX and scikit-learn: extra `jax`")
    numpy = pytest.importorskip("numpy")
    job, undisturbed = tmp_path / "job", tmp_path / "undisturbed"
    said = [
        run(processes, job, 2, stop_after=45),
        run(processes, job, 1, stop_after=38),
        run(processes, job, 3),
    ]

    # Each run goes on from the last checkpoint; what came after that was lost, and is done again.
    for text, world_size, step in zip(said, [2, 1, 3], [0, 40, 70], strict=True):
        epoch, rest = divmod(step, STEPS)
        at = f"epoch {epoch}, position {rest * G} of {TRAIN_SAMPLES}, step {step}"
        assert f"world size {world_size}: {at}" in text
    logs = sorted(job.glob("*.jsonl"))
    report = audit(logs, TRAIN_SAMPLES, tail="fill", places=G)
    assert report.exact, str(report)
    assert [STEPS * G] * EPOCHS == [epoch.trained for epoch in report.epochs]
    assert 5 * 2 + 8 == report.redone
    assert str(report) in said[-1]

    # The global batches are those of the order, at every world size.
    entries = [entry for log in logs for entry in read_log(log)]
    for number in sorted({entry.run for entry in entries}):
        for (epoch, step), samples in global_batches(entries, number).items():
            order = list(Permutation(TRAIN_SAMPLES, 0, epoch))
            first = step % STEPS * G
            assert sorted((order + order)[first : first + G]) == samples

    # So the model is that of training which was never stopped: only the order of sums differs.
    never_stopped = run(processes, undisturbed, 1)
    resumed, alone = (numpy.load(where / "checkpoint.npz") for where in (job, undisturbed))
    assert str(resumed["job"]) == str(alone["job"])
    for name in ("w1", "b1", "w2", "b2"):
        assert numpy.abs(resumed[name] - alone[name]).max() == pytest.approx(0, abs=1e-3)
    for text in (said[-1], never_stopped):
        accuracy = re.search(r"held-out digits: (.*)", text)
        assert accuracy is not None
        assert float(accuracy[1]) > 0.9
