"""What is an order? For one epoch, a sequence: position -> sample index.

An order knows the data and (seed, epoch), never a rank or a world size. Anything that answers
`len(order)`, `order[i]` and `order[i:j:step]` will do: a list, a range, an array. A `LazyOrder`
computes its items when they are asked for; a `FullOrder` is one that has each index once.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, TypeAlias, TypeVar, cast, overload

EpochOrder: TypeAlias = Callable[[int], Sequence[int] | Sequence[list[int]]]
"""What `order=` takes: epoch -> the order of that epoch, its places indices or whole batches."""

Place = TypeVar("Place", int, list[int])
"""What is at a position: a sample index, or a whole batch of them."""


class LazyOrder(Sequence[Place]):
    """An order whose items are computed when they are asked for.

    It may repeat indices and leave some out. A slice with a positive step is a list or a range,
    made at once: it costs its length. Implement `__len__`, `at` and `take`.
    """

    @overload
    def __getitem__(self, position: int) -> Place: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Place]: ...
    def __getitem__(self, position: int | slice) -> Place | Sequence[Place]:
        """What is at a position, or at a slice of positions."""
        if isinstance(position, slice):
            places = range(len(self))[position]
            return self.take(places) if places.step > 0 else self.take(places[::-1])[::-1]
        return self.at(range(len(self))[operator.index(position)])

    def at(self, position: int) -> Place:
        """What is at `position`, `0 <= position < len(self)`."""
        return self.take(range(position, position + 1))[0]

    @abstractmethod
    def take(self, places: range) -> Sequence[Place]:
        """What is at `places`, a range inside `range(len(self))` with a positive step."""

    def array(self, places: range) -> Any:
        """As `take`, as a NumPy array or what NumPy can make one of."""
        return self.take(places)

    def find(self, sample: int) -> list[int]:
        """The positions of a sample, or of the batches with it, ascending.

        It costs O(len(self)) here, and less in the orders that can do better.
        """
        return [position for position, item in enumerate(self) if has(item, sample)]


class FullOrder(LazyOrder[int]):
    """An order that holds each index of `range(len(self))` exactly once (law 1: a bijection).

    Because of that it can be inverted: `order.index(order[p]) == p`, without a search. A slice
    with a positive step is a list or a range of Python ints, made at once: it costs its length.
    """

    @abstractmethod
    def at(self, position: int) -> int:
        """The sample index at `position`, `0 <= position < len(self)`."""

    def gather(self, positions: Any) -> Any:
        """The sample indices at any positions: a list or an array of them. Costs O(len)."""
        return [self.at(position) for position in positions]

    @abstractmethod
    def position(self, sample: int) -> int:
        """The position of `sample`, `0 <= sample < len(self)`: the inverse of `at`."""

    def find(self, sample: int) -> list[int]:
        """The positions of a sample: one, or none if it is out of range. Costs O(1)."""
        return [self.position(sample)] if sample in self else []

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """The position of a sample index. Inverts the order, without a search.

        Raises:
            ValueError: `value` is not in the order, or not in `[start, stop)`.
        """
        if value in self:
            sample = range(len(self)).index(cast(int, value))  # 3.0 and NumPy's 3 are 3
            position = self.position(sample)
            if position in range(len(self))[start:stop]:
                return position
        raise ValueError(f"{value!r} is not in {self!r}")

    def __contains__(self, value: object) -> bool:
        """Whether `value` is a sample index, that is in `range(len(self))`."""
        return value in range(len(self))


def has(item: Any, sample: int) -> bool:
    """Whether the item at a position is a sample, or a batch with it."""
    return item == sample if isinstance(item, SupportsIndex) else sample in item


def find(order: Sequence[int], sample: int) -> list[int]:
    """The positions of a sample in any order, ascending. Costs O(len(order)) at worst."""
    if isinstance(order, LazyOrder):
        return order.find(sample)
    if isinstance(order, range):
        return [order.index(sample)] if sample in order else []
    return [position for position, item in enumerate(order) if has(item, sample)]


def laps(places: range, length: int) -> Iterator[range]:
    """`places`, its step positive, one lap around an order of this length after the other.

    Examples:
        >>> list(laps(range(1, 12, 3), 5))
        [range(1, 5, 3), range(2, 3, 3), range(0, 1, 3)]
    """
    while places:
        lap = places.start // length * length
        count = min(len(places), -(-(lap + length - places.start) // places.step))
        yield range(places[0] - lap, places[count - 1] - lap + 1, places.step)
        places = places[count:]


def sliced(order: Sequence[int], places: range) -> Sequence[int]:
    """The items of an order at `places`, inside of it and their step positive.

    Raises:
        ValueError: The order gives more or fewer places than a slice of it must have.
    """
    items = order[places.start : places.stop : places.step]
    if len(items) != len(places):
        raise ValueError(
            f"order[{places.start}:{places.stop}:{places.step}] must give {len(places)} places, "
            f"got {len(items)}"
        )
    return items


def read(order: Sequence[int], places: range) -> list[int]:
    """The sample indices at `places`, as Python ints; places from `len(order)` on wrap around.

    Costs O(len(places)). An order whose places are whole batches gives lists of ints.

    Raises:
        ValueError: The order gives more or fewer places than a slice of it must have.
    """
    if places.step < 0:
        return read(order, places[::-1])[::-1]
    found: list[int] = []
    for lap in laps(places, len(order)):
        items = sliced(order, lap)
        found += items if isinstance(order, (LazyOrder, range)) else map(_as_place, items)
    return found


def _as_place(item: SupportsIndex | Iterable[SupportsIndex]) -> Any:
    """One place of a foreign order: an index, or a whole batch of them, of Python ints."""
    if isinstance(item, SupportsIndex):
        return int(operator.index(item))  # int(): a bool is its own index
    return [int(operator.index(index)) for index in item]


def name_of(order: EpochOrder, epoch: int = 0) -> str:
    """What a state says of an order: its `fingerprint`, else its qualified name.

    A fingerprint that may change from epoch to epoch is a method that is asked with the epoch.
    """
    named = getattr(order, "fingerprint", None)
    if callable(named):
        named = named(epoch)
    if isinstance(named, str):
        return named
    thing = order if hasattr(order, "__qualname__") else type(order)
    return f"{thing.__module__}.{thing.__qualname__}"
