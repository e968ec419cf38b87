"""Several data sets in exact proportions: in every window, and not only on average.

Whose turn a place is, `turns.py` says: of each period of places, a part has exactly its weight.

Turn number d of a part takes the sample `d % n` of its pass number `d // n`; each pass is another
`Permutation` of the part. Turns are counted from epoch 0 on: the next epoch goes on in the pass
where the last one ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from hashlib import sha256
from itertools import accumulate
from math import gcd, lcm
from typing import Any

from ..arrays import WORTHWHILE, numpy
from ..checks import integer
from ..checks import num_samples as checked_num_samples
from ..order import LazyOrder
from ..permutation import Permutation
from ..words import Words, seed_of
from .concat import part_of
from .turns import Cycle, Stretch

LARGEST_PERIOD = 2**30


@dataclass(frozen=True)
class Draw:
    """What is at a position of a mixture.

    Attributes:
        part: Name of the part.
        index: Index of the sample in its part.
        turn: How many samples of the part were dealt before, since epoch 0.
        sample: Index of the sample in the parts laid one after the other.
    """

    part: str
    index: int
    turn: int
    sample: int


class Mixture:
    """Draws from several data sets, each shuffled and repeated as needed, in exact proportions.

    Of each *period* of places (`order.period`: the sum of the weights as the smallest whole
    numbers), every part has exactly its weight; of any other stretch it has its proportion to
    within a few samples. A sample of a part comes again when all of the part has come (one window
    of 64 places apart, in which a pass may end and the next begin), also across epochs.

    The indices are those of the data sets laid one after the other, as
    `torch.utils.data.ConcatDataset` has them.

    Args:
        parts: name -> (number of samples, weight). A weight is a whole number, a `Fraction` or a
            decimal number at least 0: 0.7 is taken for 7/10.
        num_samples: Places of an epoch. By default the least number of whole periods in which
            every part with a weight is dealt at least once as a whole.
        seed: Any integer, the same on all ranks.
        shuffle: Whether each pass of a part is another permutation, else it is as it lies.

    Costs: O(log(parts)) for a place, beside the shuffle; nothing of the size of a part is built.

    Raises:
        TypeError: An argument has the wrong type; it is named.
        ValueError: A weight is negative, all are 0, a part with a weight is empty, or the period
            is more than 2**30.

    Examples:
        >>> order = Mixture({"web": (1000, 0.7), "code": (500, 0.2), "maths": (50, 0.1)})
        >>> order.period, order.counts(0), len(order(0))
        (10, {'web': 7, 'code': 2, 'maths': 1}, 2500)
        >>> [order(0).draw(p).part for p in range(10)].count("web")
        7
    """

    def __init__(
        self,
        parts: Mapping[str, tuple[int, int | float | Fraction]],
        num_samples: int | None = None,
        *,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        if not isinstance(shuffle, bool):
            raise TypeError(f"shuffle must be True or False, got {shuffle!r}")
        if num_samples is not None:
            num_samples = checked_num_samples("num_samples", num_samples)
        self.num_samples, self.seed = num_samples, integer("seed", seed)
        self._parts = Parts(
            tuple(parts),
            tuple(checked_num_samples(f"parts[{n!r}]", size) for n, (size, _) in parts.items()),
            self.seed,
            shuffle,
        )
        weights = self._whole({name: weight for name, (_, weight) in parts.items()})
        self._stretches: tuple[Stretch, ...] = (self._stretch(0, weights, (0,) * len(weights)),)

    def set_weights(self, weights: Mapping[str, int | float | Fraction], *, epoch: int) -> None:
        """Mix in other proportions from the beginning of an epoch on.

        The passes of the parts go on where they are then (fewer than 64 turns are left out). All
        ranks must set the same; a digest of all proportions up to an epoch is in its state, so a
        resumed job sets them again, in the same epochs.

        Raises:
            TypeError, ValueError: As for the constructor, or not every part has a weight; then
                nothing was changed.
        """
        epoch = integer("epoch", epoch, 0)
        if set(weights) != set(self._parts.names):
            raise ValueError(
                f"weights must be given for {sorted(self._parts.names)}, got {sorted(weights)}"
            )
        whole = self._whole({name: weights[name] for name in self._parts.names})
        kept = tuple(stretch for stretch in self._stretches if stretch.first < epoch)
        turns = kept[-1].turns_before(epoch) if kept else (0,) * len(whole)
        self._stretches = (*kept, self._stretch(epoch, whole, turns))

    def _stretch(self, first: int, weights: tuple[int, ...], turns: tuple[int, ...]) -> Stretch:
        cycle = Cycle(weights)
        length = self.num_samples
        if length is None:
            sized = zip(self._parts.sizes, weights, strict=True)
            length = max(-(-size // w) for size, w in sized if w) * cycle.period
        words = Words.of(f"elastic-sampler mixture/1 {self.seed:x} {first:x}")
        return Stretch(first, cycle, checked_num_samples("num_samples", length), turns, words)

    def _whole(self, weights: Mapping[str, int | float | Fraction]) -> tuple[int, ...]:
        """The weights as whole numbers without a common factor."""
        exact: list[Fraction] = []
        for (name, weight), size in zip(weights.items(), self._parts.sizes, strict=True):
            if isinstance(weight, bool) or not isinstance(weight, (int, float, Fraction)):
                raise TypeError(f"the weight of {name!r} must be a number, got {weight!r}")
            try:
                exact.append(Fraction(str(weight)))
            except ValueError:
                raise ValueError(f"the weight of {name!r} must be finite, got {weight}") from None
            if weight < 0:
                raise ValueError(f"the weight of {name!r} must be at least 0, got {weight}")
            if weight and not size:
                raise ValueError(f"part {name!r} has weight {weight} and no samples to deal")
        if not any(exact):
            raise ValueError(f"weights must not all be 0, got {dict(weights)}")
        scale = lcm(*(weight.denominator for weight in exact))
        whole = [int(weight * scale) for weight in exact]
        common = gcd(*whole)
        if sum(whole) // common > LARGEST_PERIOD:
            raise ValueError(
                f"the weights, as whole numbers without a common factor, must add up to at most "
                f"2**30, got {sum(whole) // common} of {dict(weights)}: round them"
            )
        return tuple(weight // common for weight in whole)

    def _of(self, epoch: int) -> Stretch:
        found = [stretch for stretch in self._stretches if stretch.first <= epoch]
        if not found:
            raise ValueError(f"there are no weights for epoch {epoch}: set them from epoch 0 on")
        return found[-1]

    def __call__(self, epoch: int) -> Mixed:
        """The order of one epoch."""
        return Mixed(self._parts, self._of(epoch), epoch)

    @property
    def period(self) -> int:
        """Of so many places, from a multiple of it on, each part has exactly its weight."""
        return self._stretches[-1].cycle.period

    def counts(self, epoch: int) -> dict[str, int]:
        """How many places each part has in a period, in an epoch."""
        return dict(zip(self._parts.names, self._of(epoch).cycle.weights, strict=True))

    def part_of(self, sample: int) -> tuple[str, int]:
        """The name of the part that a sample index belongs to, and its index in that part."""
        return part_of(self._parts.names, self._parts.offsets, sample)

    def fingerprint(self, epoch: int) -> str:
        """What a state says of this order: its seed; a digest of parts, lengths and weights."""
        told = [
            (stretch.first, stretch.cycle.weights, stretch.length)
            for stretch in self._stretches
            if stretch.first <= epoch
        ]
        parts = self._parts
        told_of = repr((parts.names, parts.sizes, parts.shuffle, told)).encode()
        return f"mixture/1 seed={self.seed} parts={sha256(told_of).hexdigest()[:12]}"

    def __repr__(self) -> str:
        sized = dict(zip(self._parts.names, self._parts.sizes, strict=True))
        return f"{type(self).__name__}({sized}, weights={self._stretches[-1].cycle.weights})"


@dataclass(frozen=True)
class Parts:
    """What is mixed.

    Attributes:
        names: Their names.
        sizes: How many samples each has.
        seed: The seed of the mixture.
        shuffle: Whether each pass is another permutation.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    seed: int
    shuffle: bool

    @cached_property
    def offsets(self) -> list[int]:
        """Where each part begins, all laid one after the other; and where the last one ends."""
        return [0, *accumulate(self.sizes)]

    @cached_property
    def _seeds(self) -> list[int]:
        return [seed_of(f"elastic-sampler mixture/1 {self.seed:x} {n}") for n in self.names]

    def pass_of(self, part: int, number: int) -> Permutation | range:
        """The order of one pass of a part."""
        size = self.sizes[part]
        return _permutation(size, self._seeds[part], number) if self.shuffle else range(size)


@lru_cache(maxsize=32)
def _permutation(size: int, seed: int, number: int) -> Permutation:
    return Permutation(size, seed, number)


@dataclass(frozen=True)
class Mixed(LazyOrder[int]):
    """One epoch of a mixture.

    Attributes:
        parts: What is mixed.
        stretch: In which proportions.
        epoch: The epoch.
    """

    parts: Parts
    stretch: Stretch
    epoch: int

    def __len__(self) -> int:
        """How many places the epoch has."""
        return self.stretch.length

    def draw(self, position: int) -> Draw:
        """What is at a position: its part, and which sample of it."""
        place = self.stretch.start(self.epoch) + range(len(self))[position]
        part, turn = self.stretch.turn(place)
        number, inside = divmod(turn, self.parts.sizes[part])
        index = self.parts.pass_of(part, number)[inside]
        return Draw(self.parts.names[part], index, turn, self.parts.offsets[part] + index)

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`. Costs O(log(parts)) each, beside the shuffle."""
        if len(places) >= WORTHWHILE and self._fits(places) and numpy() is not None:
            samples: list[int] = self.array(places).tolist()
            return samples
        start = self.stretch.start(self.epoch)
        by_pass: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        for i, place in enumerate(range(places.start + start, places.stop + start, places.step)):
            part, turn = self.stretch.turn(place)
            number, inside = divmod(turn, self.parts.sizes[part])
            where, wanted = by_pass.setdefault((part, number), ([], []))
            where.append(i)
            wanted.append(inside)
        samples = [0] * len(places)
        for (part, number), (where, wanted) in by_pass.items():
            order, offset = self.parts.pass_of(part, number), self.parts.offsets[part]
            found = order.gather(wanted) if isinstance(order, Permutation) else wanted
            for i, sample in zip(where, found, strict=True):
                samples[i] = int(sample) + offset
        return samples

    def _fits(self, places: range) -> bool:
        """Whether 64-bit words are enough."""
        return self.stretch.start(self.epoch) + places.stop + max(self.stretch.turns) < 2**62

    def array(self, places: range) -> Any:
        """As `take`; an array where NumPy is installed and it is worth it."""
        np = numpy()
        if np is None or len(places) < WORTHWHILE or not self._fits(places):
            return self.take(places)
        start = self.stretch.start(self.epoch)
        row = range(places.start + start, places.stop + start, places.step)
        parts, turns = self.stretch.turns_at(np, row)
        samples = np.empty(len(row), dtype=np.int64)
        for part, size in enumerate(self.parts.sizes):
            mine = np.flatnonzero(parts == part)
            if not len(mine):
                continue
            numbers, inside = np.divmod(turns[mine], size)
            by_pass = np.argsort(numbers, kind="stable")
            found, begins = np.unique(numbers[by_pass], return_index=True)
            for number, some in zip(found, np.split(by_pass, begins[1:]), strict=True):
                order = self.parts.pass_of(part, int(number))
                index = (
                    order.gather(inside[some]) if isinstance(order, Permutation) else inside[some]
                )
                samples[mine[some]] = np.asarray(index, dtype=np.int64) + self.parts.offsets[part]
        return samples

    def find(self, sample: int) -> list[int]:
        """The positions of a sample, ascending. Costs O(1) for each pass that the epoch is in."""
        offsets, sizes = self.parts.offsets, self.parts.sizes
        if not 0 <= sample < offsets[-1] or not len(self):
            return []
        name, index = part_of(self.parts.names, offsets, sample)
        part = self.parts.names.index(name)
        stretch, start = self.stretch, self.stretch.start(self.epoch)
        weight, period = stretch.cycle.weights[part], stretch.cycle.period
        if not weight:
            return []
        first = stretch.turns[part] + start // period * weight
        last = stretch.turns[part] + ((start + len(self) - 1) // period + 1) * weight
        found = []
        for number in range(first // sizes[part], last // sizes[part] + 1):
            turn = number * sizes[part] + self.parts.pass_of(part, number).index(index)
            if first <= turn < last:
                found.append(stretch.place(part, turn) - start)
        return sorted(position for position in found if position in range(len(self)))
