"""One of two gloo ranks that train on digits of which some classes are rare, through two resizes.

It prints what it found, as one line of JSON.

usage: weighted_digits_rank.py weighted|plain RANK DIRECTORY
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, EpochOrder
from elastic_sampler.orders import Shuffled, Weighted

RARE = {8: 6, 9: 6}
"""How many samples are left of a class."""

GLOBAL_BATCH_SIZE, EPOCHS = 32, 6


@contextmanager
def group(directory: Path, number: int, rank: int, size: int) -> Iterator[None]:
    """The default group of one stretch of the job."""
    store = f"file://{directory}/group-{number}"
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=size, timeout=limit)
    try:
        yield
    finally:
        dist.destroy_process_group()


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images and labels to train, of which some classes are rare, and to test."""
    pixels, target = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels).float() / 16, torch.tensor(target)
    train, seen = [], Counter[int]()
    for sample, label in enumerate(labels[:1200].tolist()):
        seen[label] += 1
        if seen[label] <= RARE.get(label, 1200):
            train.append(sample)
    return images[train], labels[train], images[1200:], labels[1200:]


class Job:
    """A linear classifier, how to train it, and where it is."""

    def __init__(self, kind: str) -> None:
        self.images, self.labels, self.test_images, self.test_labels = digits()
        sizes = Counter(self.labels.tolist())
        order: EpochOrder = Shuffled(len(self.labels), seed=0)
        if kind == "weighted":
            order = Weighted([1 / sizes[label] for label in self.labels.tolist()], seed=0)
        torch.manual_seed(0)
        self.net = nn.Linear(64, 10)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.05, momentum=0.9)
        self.sampler = ElasticDistributedSampler(len(self.labels), order=order, tail="fill")
        self.batches = ElasticBatchSampler(self.sampler, GLOBAL_BATCH_SIZE)
        samples: Any = list(zip(self.images, self.labels, range(len(self.labels)), strict=True))
        self.loader = DataLoader[Any](samples, batch_sampler=self.batches)
        self.parts: dict[str, Any]
        self.parts = {"net": self.net, "optimizer": self.optimizer, "sampler": self.sampler}
        self.trained: list[tuple[int, int]] = []  # epoch, sample; the tail's repeats apart

    def train(self, steps: int | None = None) -> None:
        """Train to the end, or so many steps."""
        model = DistributedDataParallel(self.net) if dist.is_initialized() else self.net
        done = 0
        for epoch in self.sampler.epochs(EPOCHS):
            for k, (images, labels, indices) in enumerate(self.batches.track(self.loader)):
                self.optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(model(images), labels)
                (loss * self.batches.loss_scale(k)).backward()
                self.optimizer.step()
                real = len(indices) - self.batches.padding(k)
                self.trained += [(epoch, sample) for sample in indices.tolist()[:real]]
                done += 1
                if done == steps:
                    return

    def recall(self) -> list[float]:
        """For each class, which part of its test samples is recognised."""
        right = self.net(self.test_images).argmax(dim=1) == self.test_labels
        return [float(right[self.test_labels == label].float().mean()) for label in range(10)]

    def weights(self) -> Tensor:
        return torch.cat([weight.detach().flatten() for weight in self.net.parameters()])


def main(kind: str, rank: int, directory: Path) -> dict[str, Any]:
    """Two ranks train 50 steps; one trains 45 more; two train the rest."""
    trained: list[tuple[int, int]] = []
    checkpoint, positions = directory / "checkpoint.pt", []
    for number, (size, steps) in enumerate([(2, 50), (1, 45), (2, None)]):
        if rank >= size:
            continue
        with group(directory, number, rank, size):
            job = Job(kind)
            if number:
                for name, state in torch.load(checkpoint, weights_only=True).items():
                    job.parts[name].load_state_dict(state)
            job.train(steps)
            trained += job.trained
            positions.append([job.sampler.epoch, job.sampler.position])
            if rank == 0:
                states = {name: part.state_dict() for name, part in job.parts.items()}
                torch.save(states, checkpoint)
    found = {"trained": trained, "positions": positions, "weights": job.weights().tolist()}
    if rank == 0:
        never_resized = Job(kind)
        never_resized.train()
        away = (job.weights() - never_resized.weights()).abs().max()
        found |= {"away": float(away), "recall": job.recall(), "labels": job.labels.tolist()}
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
