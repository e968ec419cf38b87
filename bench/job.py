"""The job that every peer plays: stages of one epoch, each with a world size of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Stage:
    """One world size, and how long it lasts.

    Attributes:
        number: Which stage of the job this is, from 0.
        world_size: Number of ranks.
        steps: Number of steps, or None: to the end of the epoch.
        global_batch_size: Samples that all ranks together shall take in a step.
        rank_batch_size: Samples that a rank takes in a step when all take equally many. Where
            world_size does not divide the global batch this is rounded up.
    """

    number: int
    world_size: int
    steps: int | None
    global_batch_size: int
    rank_batch_size: int


@dataclass(frozen=True)
class Job:
    """One epoch, shuffled.

    Attributes:
        num_samples: Number of samples; the data of sample i is i.
        stages: What is played, one after the other.
        directory: An empty one, for peers that read data from files.
    """

    num_samples: int
    stages: tuple[Stage, ...]
    directory: Path


@dataclass(frozen=True)
class Step:
    """One step of all ranks.

    Attributes:
        stage: Number of its stage.
        samples: What each rank got, in the order of ranks; nothing, if it has ended.
    """

    stage: int
    samples: tuple[list[int], ...]


def stages(
    worlds: Iterable[tuple[int, int | None]], global_batch: int, rank_batch: int | None
) -> tuple[Stage, ...]:
    """The stages of a job with a fixed global batch or, if it is given, a fixed batch per rank."""
    return tuple(
        Stage(number, size, steps, global_batch, -(-global_batch // size))
        if rank_batch is None
        else Stage(number, size, steps, rank_batch * size, rank_batch)
        for number, (size, steps) in enumerate(worlds)
    )


def lockstep(stage: Stage, ranks: Iterable[Iterator[list[int]]]) -> Iterator[Step]:
    """Step all ranks, for the stage's number of steps or until the last of them ends."""
    ranks = list(ranks)
    for _ in itertools.count() if stage.steps is None else range(stage.steps):
        samples = tuple(next(rank, []) for rank in ranks)
        if not any(samples):
            return
        yield Step(stage.number, samples)
