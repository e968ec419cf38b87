"""Play a history of resizes through real samplers, and see what every sample got.

The rounds are found from the samplers' states and shares: O(1) each, at any number of samples. What
is counted sample by sample (`Report.counts`, `Report.violations`) costs O(num_samples).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from .batches import Batches, Batching
from .checks import integer
from .checks import num_samples as checked_num_samples
from .order import EpochOrder
from .picture import Band, Mark, draw
from .sampler import ElasticDistributedSampler
from .share import Share, Tail
from .state import State
from .world import World

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Stage:
    """How long one world size lasts: to the end of the epoch, unless steps or samples are given.

    Attributes:
        world_size: Number of ranks, at least 1.
        steps: Number of steps, at least 1.
        samples: Number of samples of all ranks together, at least 1: the stage ends with the first
            step that reaches it. Give steps or samples, not both.
    """

    world_size: int
    steps: int | None = None
    samples: int | None = None

    def __post_init__(self) -> None:
        integer("world_size", self.world_size, 1)
        for name in ("steps", "samples"):
            if getattr(self, name) is not None:
                integer(name, getattr(self, name), 1)
        if self.steps is not None and self.samples is not None:
            raise ValueError(
                f"a stage has steps or samples, not both, got {self.steps} and {self.samples}"
            )


@dataclass(frozen=True)
class GlobalShare:
    """What one rank got in some steps of global batches: with a length and iterable, as a `Share`.

    Attributes:
        batches: Its parts of the batches that were left.
        steps: How many of the first ones it took.
    """

    batches: Batches
    steps: int

    def __len__(self) -> int:
        """How many indices. Costs O(1): all steps but the last have the same size."""
        return (self.steps - 1) * len(self.batches.places(0)) + len(self._last) if self.steps else 0

    @property
    def _last(self) -> range:
        return self.batches.places(self.steps - 1)

    @property
    def places(self) -> Iterator[int]:
        """The positions, in the order of steps."""
        return chain.from_iterable(map(self.batches.places, range(self.steps)))

    @property
    def padding(self) -> int:
        """How many of the last indices are wrap-around repeats."""
        return self.batches.padding(self.steps - 1) if self.steps else 0

    def __iter__(self) -> Iterator[int]:
        """The indices, in the order of steps."""
        return chain.from_iterable(map(self.batches.__getitem__, range(self.steps)))


def _padding(share: Share | GlobalShare) -> Share:
    """The wrap-around repeats at the end of a share."""
    if isinstance(share, GlobalShare):
        batches, padding = share.batches, share.padding
        return Share(batches.order, share._last[-padding:] if padding else range(0))
    return share[len(share) - share.padding :]


@dataclass(frozen=True)
class Round:
    """What happened in one stage.

    Attributes:
        world_size: Number of ranks.
        start: Position at which it began.
        stop: Position at which it ended.
        steps: Number of steps, of the rank that took most.
        shares: What each rank got, in the order of ranks.
        batch_size: Indices of one rank in one step, or of all ranks in global batches, the last
            step apart.
        finished: Whether the epoch ended here.
        agreed: Whether all ranks that took the last step would save the same state after it.
        start_rank: What turned the ranks.
    """

    world_size: int
    start: int
    stop: int
    steps: int
    shares: tuple[Share | GlobalShare, ...]
    batch_size: int
    finished: bool
    agreed: bool
    start_rank: int

    @property
    def places(self) -> int:
        """How many places of the order a tail is smaller than: one per rank, or a global batch."""
        globally = isinstance(self.shares[0], GlobalShare)
        return self.batch_size if globally else self.world_size

    @property
    def samples_per_rank(self) -> tuple[int, ...]:
        """How many indices each rank got."""
        return tuple(map(len, self.shares))

    @property
    def steps_per_rank(self) -> tuple[int, ...]:
        """How many steps each rank took."""
        return tuple(
            share.steps if isinstance(share, GlobalShare) else -(-len(share) // self.batch_size)
            for share in self.shares
        )


@dataclass(frozen=True)
class Report:
    """What a history of resizes came to.

    Attributes:
        num_samples: Length of the epoch's order.
        tail: What happened at its end.
        rounds: What happened at each world size.
    """

    num_samples: int
    tail: Tail
    rounds: tuple[Round, ...]

    @property
    def finished(self) -> bool:
        """Whether the epoch came to its end."""
        return any(round_.finished for round_ in self.rounds)

    @property
    def seen(self) -> int:
        """How many places of the order were visited."""
        shares = chain.from_iterable(round_.shares for round_ in self.rounds)
        return sum(len(share) - share.padding for share in shares)

    @property
    def repeated(self) -> int:
        """How many places were visited again at the end: the wrap-around tail."""
        return sum(share.padding for round_ in self.rounds for share in round_.shares)

    @property
    def unseen(self) -> int:
        """How many places were not visited."""
        return self.num_samples - self.seen

    @cached_property
    def counts(self) -> Counter[int]:
        """How often each sample was dealt, the tail included. Costs O(num_samples)."""
        return Counter(i for round_ in self.rounds for share in round_.shares for i in share)

    @property
    def tail_samples(self) -> tuple[int, ...]:
        """The repeated samples of the tail, in the order of ranks."""
        shares = chain.from_iterable(round_.shares for round_ in self.rounds)
        return tuple(chain.from_iterable(map(_padding, shares)))

    def plot(self) -> Figure:
        """Draw position against rank, one band per round, the repeats of the tail marked.

        Returns:
            A figure of matplotlib: `savefig("plan.svg")` writes it to a file.

        Raises:
            ImportError: matplotlib is not installed: the extra "plot".
        """
        bands = [
            Band(
                found.world_size,
                found.start,
                found.start + sum(found.samples_per_rank),
                found.steps,
                number,
                found.start_rank,
            )
            for number, found in enumerate(self.rounds, 1)
        ]
        marks = [
            Mark(rank, place)
            for found in self.rounds
            for rank, share in enumerate(found.shares)
            for place in _padding(share).places
        ]
        return draw(self.num_samples, {f"{self.num_samples:,} samples": (bands, marks)})

    @cached_property
    def violations(self) -> tuple[str, ...]:
        """The laws that do not hold, counted place by place; empty if all do.

        Costs O(num_samples).
        """
        told = []
        visited = Counter[int]()
        for number, round_ in enumerate(self.rounds):
            where = f"round {number} ({round_.world_size} ranks)"
            places = sorted(place for share in round_.shares for place in share.places)
            visited.update(places)
            if places and places != list(range(round_.start, round_.start + len(places))):
                told.append(f"batch: {where} did not visit consecutive positions")
            least, most = min(round_.steps_per_rank), max(round_.steps_per_rank)
            allowed = 1 if self.tail == "uneven" and round_.finished else 0
            if most - least > allowed:
                told.append(f"agreement: {where} took from {least} to {most} steps")
            if not round_.agreed:
                told.append(f"resume: the ranks of {where} would save different states")
        real = sorted(place for place in visited if place < self.num_samples)
        if max(visited.values(), default=1) > 1:
            told.append("exactly once: positions were visited more than once")
        if real != list(range(len(real))):
            told.append("exactly once: positions were skipped")
        last = self.rounds[-1]
        drops = last.places if self.tail == "drop" else 1
        if self.finished and len(real) <= self.num_samples - drops:
            told.append(f"exactly once: {self.num_samples - len(real)} positions were not visited")
        repeats = {"wrap": last.world_size, "fill": last.places}.get(self.tail, 1)
        if sum(visited.values()) - len(real) >= repeats:
            told.append("exactly once: more was repeated than the tail explains")
        return tuple(told)


def simulate(
    num_samples: int,
    worlds: Iterable[Stage | tuple[int, int] | int],
    *,
    batch_size: int = 1,
    global_batch_size: int | None = None,
    epoch: int = 0,
    start_rank: int = 0,
    shuffle: bool = False,
    seed: int = 0,
    tail: Tail = "wrap",
    order: EpochOrder | None = None,
) -> Report:
    """Play one epoch at changing world sizes, each round resumed by fresh samplers from the state.

    Args:
        num_samples: Number of samples.
        worlds: The stages: a `Stage`, a pair (world size, steps), or a world size that stays to the
            end of the epoch. Stages after the end of the epoch are not played.
        batch_size: Indices of one rank in one step.
        global_batch_size: Indices of all ranks together in one step, the same at every world size,
            as `ElasticBatchSampler` deals them. Instead of `batch_size`.
        epoch: Which epoch.
        start_rank: As for `ElasticDistributedSampler`.
        shuffle: As for `ElasticDistributedSampler`.
        seed: As for `ElasticDistributedSampler`.
        tail: As for `ElasticDistributedSampler`.
        order: As for `ElasticDistributedSampler`.

    Raises:
        TypeError, ValueError: An argument is wrong; it is named.

    Examples:
        >>> report = simulate(1003, [(8, 50), (6, 40), 7], shuffle=True)
        >>> report.seen, report.repeated, report.unseen, report.violations
        (1003, 1, 0, ())
    """
    num_samples = checked_num_samples("num_samples", num_samples)
    batch_size = integer("batch_size", batch_size, 1)
    batching = None if global_batch_size is None else Batching(global_batch_size)
    if batching is not None and batch_size != 1:
        raise ValueError(
            f"batch_size is of one rank and global_batch_size of all ranks: give one of them, got "
            f"{batch_size} and {global_batch_size}"
        )
    rounds: list[Round] = []
    state: State | None = None
    length = num_samples
    for stage in map(_stage, worlds):
        if state is not None and (state.finished or not state.num_samples):
            break
        samplers = [
            ElasticDistributedSampler(
                num_samples,
                start_rank=start_rank,
                start_epoch=epoch,
                shuffle=shuffle,
                seed=seed,
                tail=tail,
                order=order,
                world=World(rank, stage.world_size, "simulated"),
            )
            for rank in range(stage.world_size)
        ]
        length = samplers[0].num_samples
        found, state = _play(samplers, stage, batching or batch_size, state, start_rank)
        rounds.append(found)
    if not rounds:
        raise ValueError("worlds must have at least one stage, got none")
    return Report(length, tail, tuple(rounds))


def _stage(stage: Stage | tuple[int, int] | int) -> Stage:
    if isinstance(stage, Stage):
        return stage
    return Stage(*stage) if isinstance(stage, tuple) else Stage(stage)


def _play(
    samplers: Sequence[ElasticDistributedSampler],
    stage: Stage,
    batches: Batching | int,
    state: State | None,
    start_rank: int,
) -> tuple[Round, State]:
    for sampler in samplers:
        if state is not None:
            sampler.load_state_dict(state.to_dict())
    begin = State.from_dict(samplers[0].state_dict())
    batching = batches if isinstance(batches, Batching) else None
    size = batches if isinstance(batches, int) else batches.global_batch_size
    shares = [sampler._shared(batching) for sampler in samplers]
    unit = size if batching is None else 1  # items of a share in one step
    steps = -(-max(map(len, shares)) // unit)
    if stage.steps is not None:
        steps = min(steps, stage.steps)
    if stage.samples is not None:
        places = size * (stage.world_size if batching is None else 1)
        steps = min(steps, -(-stage.samples // places))
    items = [min(len(share), steps * unit) for share in shares]
    for sampler, count in zip(samplers, items, strict=True):
        if count:
            sampler._advance(count, batching)
        else:
            list(sampler._iterate(batching))  # an empty share: its end is reached at once
    taken = tuple(
        share[:count] if batching is None else GlobalShare(share, count)
        for share, count in zip(shares, items, strict=True)
    )
    most = max(items)
    states = [s.state_dict() for s, count in zip(samplers, items, strict=True) if count == most]
    ends = State.from_dict(states[0])
    found = Round(
        world_size=stage.world_size,
        start=begin.position,
        stop=ends.position,
        steps=steps,
        shares=taken,
        batch_size=size,
        finished=ends.finished,
        agreed=not State.compare(states),
        start_rank=start_rank,
    )
    return found, ends
