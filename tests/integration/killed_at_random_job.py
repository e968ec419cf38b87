"""A job that is killed again and again: one parent with torch loaded, which forks its ranks.

Each run is a real gloo group of ranks with prefetching DataLoader workers. Rank 0 saves a
checkpoint every few steps. The parent kills the ranks with SIGKILL at a random moment, and starts
the next run with another number of ranks; only the last run is let to its end.

usage: killed_at_random_job.py sampler|batch_sampler SEED DIRECTORY
prints, as one line of JSON, for each run its world size, the position that it resumed from (None if
it was killed before), and the steps that rank 0 had taken when it was killed
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, SampleLog

N, KILLS, LARGEST_WORLD = 1999, 20, 4
CHECKPOINT_EVERY = 3
LEASH = 8  # so many steps a run may take before it has to wait to be killed
GLOBAL_BATCH = 10  # of the batch sampler; else each rank's batch is of BATCH
BATCH = 3
SECONDS = 60  # for whatever has to happen


@dataclass
class Run:
    """What is known of one run.

    Attributes:
        size: Its world size.
        position: Where it began, as soon as its rank 0 has said so.
        steps: How many steps its rank 0 has taken.
    """

    size: int
    position: int | None = None
    steps: int = 0


# One rank.


def rank_of(
    kind: str, directory: Path, run: int, rank: int, size: int, leash: int | None, pipe: int
) -> None:
    """Train from the last checkpoint on; rank 0 tells the parent about each step."""
    group = f"file://{directory}/group-{run}"
    limit = timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=group, rank=rank, world_size=size, timeout=limit)
    sampler = ElasticDistributedSampler(N, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, GLOBAL_BATCH)
    dealt: dict[str, Any] = {"sampler": sampler, "batch_size": BATCH}
    source: Any = sampler
    if kind == "batch_sampler":
        dealt, source = {"batch_sampler": batches}, batches
    samples: Any = range(N)
    loader = DataLoader[Any](samples, num_workers=2, multiprocessing_context="fork", **dealt)

    checkpoint, step = directory / "checkpoint.json", 0
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        step = saved["step"]
        source.load_state_dict(saved["sampler"])
    if rank == 0:
        os.write(pipe, f"{sampler.position}\n".encode())
    first = step
    with SampleLog(directory / f"{run}-{rank}.jsonl", sampler.world, run=run) as log:
        for batch in source.track(loader):
            if step - first == leash:
                signal.pause()
            trained = torch.tensor(1)
            dist.all_reduce(trained)  # as gradients are: nobody takes a step alone
            assert size == trained
            step += 1
            log.write(sampler.epoch, step, batch)
            if rank == 0:
                os.write(pipe, b"step\n")
            if step % CHECKPOINT_EVERY == 0:
                dist.barrier()  # what the checkpoint covers, every rank has logged
                if rank == 0:
                    save(checkpoint, {"step": step, "sampler": source.state_dict()})
    dist.barrier()
    dist.destroy_process_group()


def save(path: Path, state: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".tmp")
    unfinished.write_text(json.dumps(state))
    unfinished.replace(path)


# The parent.


def forked(work: Callable[[], None]) -> int:
    """The pid of a child that leads a process group of its own, its loader's workers in it."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    with suppress(OSError):  # the child has done so itself, and may be gone already
        os.setpgid(pid, pid)
    return pid


def kill(pids: list[int]) -> None:
    """SIGKILL to ranks and to the workers of their loaders."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


def follow(run: Run, pipe: int, steps: int) -> None:
    """Read what rank 0 tells, until it has taken so many steps; 0 does not wait for anything."""
    told = b""
    while run.steps < steps:
        ready, _, _ = select.select([pipe], [], [], SECONDS)
        if not ready:
            raise TimeoutError(f"nothing from rank 0 in {SECONDS} s: {run}")
        told += (found := os.read(pipe, 4096))
        if not found:
            raise RuntimeError(f"rank 0 has ended: {run}")
        *lines, told = told.split(b"\n")
        note(run, lines)


def note(run: Run, lines: list[bytes]) -> None:
    for line in lines:
        if line == b"step":
            run.steps += 1
        elif line:
            run.position = int(line)


def one_run(kind: str, directory: Path, number: int, chance: random.Random) -> Run:
    run, leash = Run(chance.randint(1, LARGEST_WORLD)), LEASH if number < KILLS else None
    reader, writer = os.pipe()
    pids = [
        forked(partial(rank_of, kind, directory, number, rank, run.size, leash, writer))
        for rank in range(run.size)
    ]
    os.close(writer)
    try:
        if leash is not None:
            follow(run, reader, chance.randint(0, LEASH))
            time.sleep(chance.uniform(0, 0.02) * (1 if run.steps else 10))  # in whatever it does
            if chance.random() < 0.5:  # one rank first: the others' collective fails
                kill([chance.choice(pids)])
                time.sleep(chance.uniform(0, 0.01))
        else:
            codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
            assert codes == [0] * run.size, f"exit codes of the last run: {codes}"
            pids = []
    finally:
        kill(pids)
        for pid in pids:
            os.waitpid(pid, 0)
        rest = b""
        while found := os.read(reader, 4096):  # up to the end: nobody has the other end any more
            rest += found
        os.close(reader)
    note(run, rest.split(b"\n"))
    return run


def main(kind: str, seed: int, directory: Path) -> None:
    warnings.simplefilter("ignore")
    chance = random.Random(seed)
    runs = [one_run(kind, directory, number, chance) for number in range(KILLS + 1)]
    print(json.dumps([asdict(run) for run in runs]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]).resolve())
