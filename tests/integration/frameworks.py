"""What the tests of frameworks share: one job of real ranks, resized twice in mid-epoch."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from integration.conftest import Process, Processes, free_port, need

from elastic_sampler import audit

NUM_SAMPLES, GLOBAL_BATCH, EPOCHS = 1797, 32, 3
STEPS = -(-NUM_SAMPLES // GLOBAL_BATCH)
"""Steps of an epoch: the same at every world size."""


def installed(*modules: str) -> None:
    """Skip the test if it needs what is not installed."""
    for module in ("sklearn", *modules):
        need(find_spec(module), f"needs {module}: see the extra `frameworks`")


def ranks(processes: Processes, script: Path, size: int, *words: object) -> list[Process]:
    """Start the ranks of one run, with the variables that a launcher sets."""
    shared = {
        "WORLD_SIZE": size,
        "LOCAL_WORLD_SIZE": size,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": 1,
        "HF_HUB_OFFLINE": 1,
    }
    started = []
    for rank in range(size):
        environ = {"RANK": rank, "LOCAL_RANK": rank, **shared}
        started.append(
            processes.start(
                f"{script.stem} {words[0]}, rank {rank} of {size}",
                [sys.executable, str(script), *map(str, words)],
                {name: str(value) for name, value in environ.items()},
            )
        )
    return started


def resized_job_is_exact(processes: Processes, script: Path) -> None:
    """Two ranks begin an epoch, one ends it and begins the next, two end that and train a third.

    The script is told the number of the run, and the step after which it must kill itself, 0 for
    never. It saves every 15 steps, so the first two runs die five steps after a checkpoint.
    """
    runs = [(2, 20), (1, STEPS + 23), (2, None)]
    for run, (size, killed_after) in enumerate(runs):
        for process in ranks(processes, script, size, run, killed_after or 0):
            code = process.wait(120)
            # A rank whose peer was killed first may end in an error of its own.
            assert (code == 0) == (killed_after is None), process.output
    assert_exact(processes.directory, redone=2 * 5 + 5)


def assert_exact(directory: Path, redone: int) -> None:
    """Audit the job's logs: whole epochs, nothing redone but what came after a checkpoint."""
    report = audit(directory.glob("*.jsonl"), NUM_SAMPLES, places=GLOBAL_BATCH)
    assert report.exact, str(report)
    assert [(epoch, STEPS) for epoch in range(EPOCHS)] == [
        (e.epoch, e.steps) for e in report.epochs
    ]
    # Alone, the last batch of an epoch has 5 samples, and on two ranks 3 each: one is a repeat.
    assert [1797, 1798, 1798] == [epoch.trained for epoch in report.epochs]
    assert redone == report.redone
