"""One process with gloo groups that come and go: it prints what it found, as one line of JSON.

usage: torch_ddp_rank.py live|train RANK DIRECTORY
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from elastic_sampler import ElasticDistributedSampler, SampleLog, WorldLostError

NUM_SAMPLES = 1000


@contextmanager
def group(directory: Path, rank: int, size: int) -> Iterator[None]:
    """A default group of `size` processes; each size is used once in a directory."""
    store = f"file://{directory}/group-of-{size}"
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=limit)
    try:
        yield
    finally:
        dist.destroy_process_group()


def live(rank: int, directory: Path) -> dict[str, Any]:
    """One sampler for the life of the process, while groups of 2, 3 and 1 share one epoch."""
    sampler = ElasticDistributedSampler(NUM_SAMPLES, shuffle=True, seed=0)
    found: dict[str, Any] = {"len without a group": len(sampler), "worlds": [], "lost": []}
    state: list[Any] = [sampler.state_dict()]
    for run, (size, stop) in enumerate([(2, 200), (3, 500), (1, NUM_SAMPLES)]):
        if rank >= size:
            continue
        with group(directory, rank, size):
            dist.broadcast_object_list(state, src=0)  # the newcomer has none
            sampler.load_state_dict(state[0])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                indices = iter(sampler)
            found["worlds"].append([sampler.world.rank, sampler.world.size, len(sampler)])
            said = [f"{warning.category.__name__}: {warning.message}" for warning in told]
            found.setdefault("warned", said)
            with SampleLog(directory / f"{run}-{rank}.jsonl", sampler.world, run=run) as log:
                while (position := sampler.position) < stop:
                    samples = list(islice(indices, 10))
                    sampler.advance(len(samples))
                    log.write(0, position, samples)
            state = [sampler.state_dict()]
        for use in (iter, len):
            try:
                use(sampler)
            except WorldLostError as error:
                found["lost"].append(str(error))
    return found


class Job:
    """A linear classifier of real digits, how to train it, and where it is in the epoch."""

    def __init__(self, batch_size: int) -> None:
        pixels, target = load_digits(return_X_y=True)
        self.images, self.labels = torch.tensor(pixels).float() / 16, torch.tensor(target)
        torch.manual_seed(0)
        self.net = nn.Linear(64, 10)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2, momentum=0.9)
        self.sampler = ElasticDistributedSampler(len(target), shuffle=True, seed=0)
        samples: Any = list(zip(self.images, self.labels, range(len(target)), strict=True))
        self.loader = DataLoader[Any](samples, batch_size, sampler=self.sampler)
        self.parts: dict[str, Any]
        self.parts = {"net": self.net, "optimizer": self.optimizer, "sampler": self.sampler}
        self.step = 0

    def train(self, epochs: int, log: SampleLog | None, steps: int | None = None) -> None:
        """Train up to an epoch, or so many steps."""
        model = DistributedDataParallel(self.net) if dist.is_initialized() else self.net
        for epoch in self.sampler.epochs(epochs):
            for images, labels, indices in self.sampler.track(self.loader):
                self.optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                self.optimizer.step()
                self.step += 1
                if log is not None:
                    log.write(epoch, self.step, indices)
                if self.step == steps:
                    return

    def weights(self) -> Tensor:
        return torch.cat([weight.detach().flatten() for weight in self.net.parameters()])


def train(rank: int, directory: Path) -> dict[str, Any]:
    """Two ranks train 20 steps of 16 each; then one trains the rest, in steps of 32."""
    with group(directory, rank, 2):
        both = Job(batch_size=16)
        with SampleLog(directory / f"0-{rank}.jsonl", both.sampler.world, run=0) as log:
            both.train(2, log, steps=20)
    found = {"position": both.sampler.position, "weights": both.weights().tolist()}
    if rank:
        return found
    states = {name: part.state_dict() for name, part in both.parts.items()}
    torch.save(states, directory / "checkpoint.pt")

    with group(directory, 0, 1):
        alone = Job(batch_size=32)
        alone.step = both.step
        for name, state in torch.load(directory / "checkpoint.pt", weights_only=True).items():
            alone.parts[name].load_state_dict(state)
        with SampleLog(directory / "1-0.jsonl", alone.sampler.world, run=1) as log:
            alone.train(2, log)

    never_resized = Job(batch_size=32)
    never_resized.train(2, None)
    right = alone.net(alone.images).argmax(dim=1) == alone.labels
    away = (alone.weights() - never_resized.weights()).abs().max()
    return {**found, "away": float(away), "accuracy": float(right.float().mean())}


if __name__ == "__main__":
    program = {"live": live, "train": train}[sys.argv[1]]
    print(json.dumps(program(int(sys.argv[2]), Path(sys.argv[3]))))
