"""Some of the samples only: a training split, a class, what passed a filter."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, SupportsIndex

from ..arrays import array as as_array
from ..arrays import numpy
from ..columns import digest, integers
from ..order import EpochOrder, LazyOrder, find, name_of, read


@dataclass(frozen=True)
class Column:
    """Indices in 8 bytes each, or a range of them. Equal if their digests are.

    Attributes:
        values: The indices.
    """

    values: array[int] | range

    @cached_property
    def digest(self) -> str:
        """12 hexadecimal digits."""
        return digest(self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Column) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.values)} indices, {self.digest})"


class Subset:
    """Visits the samples `indices`, in the order of another order.

    Position p of an epoch holds `indices[order(epoch)[p]]`: to shuffle a subset, say
    `Subset(indices, Shuffled(len(indices), seed))`.

    Args:
        indices: Indices of the data set, at least 0. Kept in 8 bytes each; a range stays a range.
        order: The order of `range(len(indices))`, or of some of it.

    Raises:
        TypeError: An index is no integer (its position is named), or `order` cannot be called.
        ValueError: An index is negative; its position is named.

    Examples:
        >>> from elastic_sampler.orders import Sequential, Shuffled
        >>> list(Subset([3, 5, 8, 13], Sequential(4))(0))
        [3, 5, 8, 13]
        >>> sorted(Subset(range(100, 104), Shuffled(4, seed=1))(7))
        [100, 101, 102, 103]
    """

    def __init__(self, indices: Iterable[SupportsIndex], order: EpochOrder) -> None:
        if not callable(order):
            raise TypeError(f"order must be a callable from epoch to a sequence, got {order!r}")
        self.order = order
        self._column = Column(integers("indices", indices))

    def __call__(self, epoch: int) -> LazyOrder[int]:
        """The order of one epoch."""
        inner: Any = self.order(epoch)
        return Picked(self._column, inner)

    def fingerprint(self, epoch: int) -> str:
        """What a state says of this order: a digest of the indices, and the inner order."""
        return f"subset/1 indices={self._column.digest} of {name_of(self.order, epoch)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._column!r}, {self.order!r})"


@dataclass(frozen=True)
class Picked(LazyOrder[int]):
    """`column[order[position]]`.

    Attributes:
        column: The samples to choose from.
        order: Places in the column.
    """

    column: Column
    order: Sequence[int]

    def __len__(self) -> int:
        """How many positions there are."""
        return len(self.order)

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`. Costs what the inner order costs."""
        values = self.column.values
        return [values[place] for place in read(self.order, places)]

    def array(self, places: range) -> Any:
        """The same; an array where NumPy is installed."""
        np = numpy()
        if np is None:
            return self.take(places)
        values, inner = self.column.values, as_array(self.order, places)
        if isinstance(values, range):
            return values.start + inner * values.step
        return np.frombuffer(values, dtype=np.int64)[inner]

    def find(self, sample: int) -> list[int]:
        """The positions of a sample, ascending. Costs O(len(column)), or O(1) for a range."""
        values = self.column.values
        where = find(values, sample)
        return sorted(position for place in where for position in find(self.order, place))
