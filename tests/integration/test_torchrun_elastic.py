"""torchrun's elastic agents on loopback: one is killed in mid-epoch, another joins later.

The job is `examples/torch_digits.py`, as it stands. What is claimed is read from its logs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

from integration.conftest import Process, Processes, free_port, need

from elastic_sampler import audit
from elastic_sampler.sample_log import Entry, read_log

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch_digits.py"

TRAIN_SAMPLES, EPOCHS, BATCH, CHECKPOINT_EVERY = 1500, 8, 2, 10

ENVIRON = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    # torch 2.13: without it an agent that joins a running job waits for MASTER_ADDR in vain.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


def newest_run(job: Path, world_size: int) -> list[Entry] | None:
    """What rank 0 logged of the newest run, if that is one of this world size."""
    logs = sorted(job.glob("*-0.jsonl"))
    entries = list(read_log(logs[-1])) if logs else []
    return entries if entries and entries[-1].world_size == world_size else None


def in_mid_epoch(entries: list[Entry] | None) -> list[Entry] | None:
    """The entries, when their last epoch has checkpoints of its own and is far from its end."""
    if entries is None or entries[0].epoch == entries[-1].epoch:
        return None
    steps = sum(entry.epoch == entries[-1].epoch for entry in entries)
    steps_of_an_epoch = TRAIN_SAMPLES // (BATCH * entries[-1].world_size)
    return entries if 2 * CHECKPOINT_EVERY <= steps <= steps_of_an_epoch // 2 else None


def begins_inside_an_epoch(run: int, entries: Iterable[Entry]) -> bool:
    """Whether earlier runs trained a part of the epoch that a run began with, and it the rest."""
    first = min((entry.epoch, entry.step) for entry in entries if entry.run == run)
    return any(e.run < run and e.epoch == first[0] and e.step < first[1] for e in entries)


def example(job: Path, epochs: int) -> list[str]:
    arguments = [str(EXAMPLE), "--directory", str(job), "--epochs", str(epochs)]
    return [*arguments, f"--batch-size={BATCH}", f"--checkpoint-every={CHECKPOINT_EVERY}"]


def test_the_job_goes_on_alone_where_a_kill_has_stopped_it(
    processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("torch") and find_spec("sklearn"), "needs torch and scikit-learn: extra `test`")
    job = tmp_path / "job"
    command = [sys.executable, *example(job, 2)]
    killed = processes.start("killed", command, ENVIRON)
    processes.wait_for("steps in mid-epoch", lambda: in_mid_epoch(newest_run(job, 1)))
    killed.kill()
    resumed = processes.start("resumed", command, ENVIRON)
    assert 0 == resumed.wait(), resumed.output

    logs = sorted(job.glob("*.jsonl"))
    report = audit(logs, TRAIN_SAMPLES)
    assert report.exact, str(report)
    assert [TRAIN_SAMPLES] * 2 == [epoch.trained for epoch in report.epochs]
    _, second = sorted(next(read_log(log)).run for log in logs)
    assert begins_inside_an_epoch(second, [entry for log in logs for entry in read_log(log)])
    assert f"position 0 of {TRAIN_SAMPLES}" not in resumed.output
    assert str(report) in resumed.output


def test_agents_that_are_killed_and_join_lose_no_sample(
    processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("torch") and find_spec("sklearn"), "needs torch and scikit-learn: extra `test`")
    job, port = tmp_path / "job", free_port()
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1:2", "--nproc-per-node=2"]
    command += ["--max-restarts=3", "--monitor-interval=0.1", "--rdzv-backend=c10d"]
    command += [f"--rdzv-endpoint=127.0.0.1:{port}", "--rdzv-id=job", "--local-addr=127.0.0.1"]
    command += ["--rdzv-conf=last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"]
    command += example(job, EPOCHS)

    def agent(name: str) -> Process:
        return processes.start(name, command, ENVIRON)

    def trained(world_size: int, steps: int) -> list[Entry]:
        def look() -> list[Entry] | None:
            entries = newest_run(job, world_size)
            return entries if entries and len(entries) >= steps else None

        return processes.wait_for(f"{steps} steps of {world_size} ranks", look)

    # The first agent hosts the rendezvous, so it must be there first, and survive.
    survivor = agent("survivor")
    trained(2, 2 * CHECKPOINT_EVERY)
    killed = agent("killed")
    processes.wait_for("4 ranks in mid-epoch", lambda: in_mid_epoch(newest_run(job, 4)))
    killed.kill()
    small = trained(2, 2 * CHECKPOINT_EVERY)
    late = agent("late")
    trained(4, 2 * CHECKPOINT_EVERY)
    assert (0, 0) == (survivor.wait(90), late.wait())

    logs = sorted(job.glob("*.jsonl"))
    report = audit(logs, TRAIN_SAMPLES)
    assert report.exact, str(report)
    assert list(range(EPOCHS)) == [epoch.epoch for epoch in report.epochs]
    for epoch in report.epochs:
        assert TRAIN_SAMPLES + len(epoch.tail) == epoch.trained
        assert len(epoch.tail) < 4

    entries = [entry for log in logs for entry in read_log(log)]
    runs = sorted({(entry.run, entry.world_size) for entry in entries})
    assert [2, 4, 2, 4] == [size for size, _ in groupby(size for _, size in runs)]
    assert begins_inside_an_epoch(small[0].run, entries), "the kill was not in mid-epoch"
    # When agents join is not in the test's hands: once in some hundred times between two epochs.
    grown = [run for run, size in runs if size == 4]
    assert any(begins_inside_an_epoch(run, entries) for run in grown)

    said = re.findall(r"accuracy on 297 held-out digits: (\S+)", survivor.output + late.output)
    assert 1 == len(said)
    assert float(said[0]) > 0.93
