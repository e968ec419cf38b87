"""One process of a job that lives through a failed step and two resizes: 3 ranks, 2, and 3 again.

As Horovod's elastic driver does it: each process keeps a commit in memory. When a collective fails,
or members change, they leave the group, make another, load the commit of its rank 0, and go on.

usage: live_resize_rank.py NUMBER DIRECTORY, where NUMBER is that of the process; it prints what it
found, as one line of JSON. At last process 0 trains alone what they trained together.
"""

from __future__ import annotations

import copy
import gc
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    SampleLog,
    WorldLostError,
)

EPOCHS, COMMIT_EVERY, GLOBAL_BATCH, MICRO_BATCH = 2, 3, 64, 16


@dataclass(frozen=True)
class Generation:
    """One group, in the order of its ranks, and how it ends.

    Attributes:
        members: The processes, by number.
        fails: The process that fails, and in which step of the job.
        until: The step after which a commit finds that other members are waiting.
    """

    members: tuple[int, ...]
    fails: tuple[int, int] | None = None
    until: int | None = None


GENERATIONS = [
    Generation((0, 1, 2), fails=(0, 11)),
    Generation((1, 2), until=21),
    Generation((1, 2, 0)),
]


class StepFailed(Exception):
    """Something went wrong in the middle of a step."""


@contextmanager
def group(store: Path, rank: int, size: int) -> Iterator[None]:
    """A default group; what other members wait for in it fails when this process leaves it."""
    limit = timedelta(seconds=60)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=limit
    )
    try:
        yield
    finally:
        dist.destroy_process_group()
        gc.collect()  # its connections end with the last that refers to it: a DDP model, say


class Job:
    """A classifier of real digits in float64, how it is trained, and its last commit."""

    def __init__(self) -> None:
        pixels, target = load_digits(return_X_y=True)
        images = torch.tensor(pixels) / 16
        samples: Any = list(zip(images, target.tolist(), range(len(target)), strict=True))
        torch.manual_seed(0)
        self.net = nn.Linear(64, 10).double()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2, momentum=0.9)
        self.sampler = ElasticDistributedSampler(len(samples), shuffle=True, seed=0, tail="fill")
        self.batches = ElasticBatchSampler(self.sampler, GLOBAL_BATCH, micro_batch_size=MICRO_BATCH)
        # Workers that outlive a pass would hold the connections of the group that they were forked
        # beside: the others would notice a failure only when their time is out.
        workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
        self.loader = DataLoader[Any](samples, batch_sampler=self.batches, **workers)
        self.step = 0
        self.commit()

    def commit(self) -> None:
        """Keep what belongs together: the model, its optimizer, how far the data was trained."""
        self.committed: dict[str, Any] = copy.deepcopy(
            {
                "net": self.net.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "batches": self.batches.state_dict(),
                "step": self.step,
            }
        )

    def restore(self) -> None:
        """Go back to the commit of rank 0: whoever joins has none, or an old one."""
        box = [self.committed]
        dist.broadcast_object_list(box, src=0)
        self.committed = box[0]
        states = copy.deepcopy(self.committed)
        self.net.load_state_dict(states["net"])
        self.optimizer.load_state_dict(states["optimizer"])
        self.batches.load_state_dict(states["batches"])
        self.step = states["step"]

    def train(
        self, log: SampleLog, *, failing: int | None = None, until: int | None = None
    ) -> None:
        """Train to the end, or up to a step; a failing step ends in an exception."""
        model: Any = DistributedDataParallel(self.net) if dist.is_initialized() else self.net
        for epoch in self.batches.epochs(EPOCHS):
            trained: list[int] = []
            for i, (images, labels, indices) in enumerate(self.batches.track(self.loader)):
                last = self.batches.ends_step(i)
                with nullcontext() if last or model is self.net else model.no_sync():
                    loss: Any = nn.functional.cross_entropy(model(images), labels)
                    if last and failing == self.step + 1:
                        raise StepFailed
                    (loss * self.batches.loss_scale(i)).backward()
                trained += indices.tolist()
                if not last:
                    continue
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.step += 1
                log.write(epoch, self.step, trained)
                trained = []
                if self.step % COMMIT_EVERY == 0:
                    self.commit()
                    if self.step == until:
                        return


def resized(number: int, directory: Path) -> dict[str, Any]:
    job = Job()
    found: dict[str, Any] = {"worlds": [], "began": [], "failed": [], "lost": 0}
    for run, generation in enumerate(GENERATIONS):
        if number not in generation.members:
            try:
                iter(job.batches)
            except WorldLostError:
                found["lost"] += 1
            continue
        rank, size = generation.members.index(number), len(generation.members)
        with group(directory / f"group-{run}", rank, size):
            job.restore()
            world = job.sampler.world  # asked anew, of the group that there is now
            found["worlds"].append([world.rank, world.size])
            found["began"].append([job.sampler.epoch, job.sampler.position, job.step])
            fails = generation.fails
            failing = fails[1] if fails and fails[0] == number else None
            with SampleLog(directory / f"{run}-{number}.jsonl", world, run=run) as log:
                try:
                    job.train(log, failing=failing, until=generation.until)
                except (StepFailed, RuntimeError) as error:  # gloo's is a RuntimeError
                    found["failed"].append(type(error).__name__)
                    job.optimizer.zero_grad()
    return found | {"weights": weights(job.net)}


def undisturbed(directory: Path) -> list[float]:
    """The weights when one process trains the same."""
    job = Job()
    with SampleLog(directory / "undisturbed.log", job.sampler.world) as log:
        job.train(log)
    return weights(job.net)


def weights(net: nn.Module) -> list[float]:
    return torch.cat([weight.detach().flatten() for weight in net.parameters()]).tolist()


def main(number: int, directory: Path) -> None:
    found = resized(number, directory)
    if number == 0:
        found["undisturbed"] = undisturbed(directory)
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
