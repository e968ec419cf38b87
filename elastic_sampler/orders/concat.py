"""One data set after the other, each in an order of its own: a curriculum, several test sets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, chain
from typing import Any

from ..arrays import array as as_array
from ..arrays import numpy
from ..checks import num_samples
from ..order import EpochOrder, LazyOrder, find, name_of, read


class Concat:
    """Visits the whole of one part after the other, in the order in which they are given.

    The indices are those of the data sets laid one after the other, as
    `torch.utils.data.ConcatDataset` has them: sample i of a part is `i +` the sizes of the parts
    before it.

    Args:
        parts: name -> (number of samples of the data set, its order).

    Raises:
        TypeError, ValueError: A part is not such a pair; it is named.

    Examples:
        >>> from elastic_sampler.orders import Sequential, Shuffled
        >>> order = Concat({"easy": (3, Sequential(3)), "hard": (4, Shuffled(4, seed=0))})
        >>> list(order(0)), order.part_of(5)
        ([0, 1, 2, 5, 4, 6, 3], ('hard', 2))
    """

    def __init__(self, parts: Mapping[str, tuple[int, EpochOrder]]) -> None:
        self.parts: dict[str, tuple[int, EpochOrder]] = {}
        for name, (size, order) in parts.items():
            if not callable(order):
                raise TypeError(f"parts[{name!r}] must have a callable order, got {order!r}")
            self.parts[name] = num_samples(f"parts[{name!r}]", size), order
        self._offsets = [0, *accumulate(size for size, _ in self.parts.values())]

    def __call__(self, epoch: int) -> LazyOrder[int]:
        """The order of one epoch."""
        orders: list[Any] = [order(epoch) for _, order in self.parts.values()]
        return Joined(tuple(orders), tuple(self._offsets))

    def part_of(self, sample: int) -> tuple[str, int]:
        """The name of the part that a sample index belongs to, and its index in that part."""
        return part_of(list(self.parts), self._offsets, sample)

    def fingerprint(self, epoch: int) -> str:
        """What a state says of this order: a digest of the parts' names, sizes and orders."""
        parts = [(n, size, name_of(order, epoch)) for n, (size, order) in self.parts.items()]
        return f"concat/1 parts={sha256(repr(parts).encode()).hexdigest()[:12]}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.parts!r})"


def part_of(names: Sequence[str], offsets: Sequence[int], sample: int) -> tuple[str, int]:
    """The part whose samples begin at the last offset that is not after `sample`.

    Raises:
        IndexError: There is no such sample.
    """
    if not 0 <= sample < offsets[-1]:
        raise IndexError(f"sample must be in [0, {offsets[-1]}), got {sample}")
    part = bisect_right(offsets, sample) - 1
    return names[part], sample - offsets[part]


@dataclass(frozen=True)
class Joined(LazyOrder[int]):
    """Orders one after the other, the indices of each moved up by an offset.

    Attributes:
        orders: The orders.
        offsets: What is added to the indices of each.
    """

    orders: tuple[Sequence[int], ...]
    offsets: tuple[int, ...]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(map(len, self.orders))]

    def __len__(self) -> int:
        """How many positions there are."""
        return self._starts[-1]

    def _parts(self, places: range) -> Iterator[tuple[Sequence[int], int, range]]:
        """The places of each part: its order, its offset, and where in its order they are."""
        for order, offset, start in zip(self.orders, self.offsets, self._starts, strict=False):
            count = len(range(places.start, min(start + len(order), places.stop), places.step))
            if mine := places[:count]:
                yield order, offset, range(mine.start - start, mine.stop - start, mine.step)
            places = places[count:]

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`. Costs what the parts' orders cost."""
        found = ((read(order, mine), offset) for order, offset, mine in self._parts(places))
        return list(chain.from_iterable([i + offset for i in some] for some, offset in found))

    def array(self, places: range) -> Any:
        """The same; an array where NumPy is installed."""
        np = numpy()
        if np is None:
            return self.take(places)
        found = [as_array(order, mine) + offset for order, offset, mine in self._parts(places)]
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def find(self, sample: int) -> list[int]:
        """The positions of a sample, ascending. Costs what the parts' orders cost."""
        parts = zip(self.orders, self.offsets, self.offsets[1:], self._starts, strict=False)
        return [
            position + start
            for order, offset, end, start in parts
            if offset <= sample < end
            for position in find(order, sample - offset)
        ]
