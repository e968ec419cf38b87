"""What is mine? A `range` of positions, mapped through the epoch's order.

Seat s of W ranks takes the positions start + s, start + s + W, … up to a stop that depends on the
tail: no control flow, no copies, and `len` and iteration come from the same range.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, TypeAlias, cast, get_args, overload

from .order import FullOrder, read
from .split import split

Tail: TypeAlias = Literal["wrap", "drop", "uneven", "fill"]
"""What happens at the end of an epoch, when the rest does not divide by the world size."""

TAILS: tuple[str, ...] = get_args(Tail)

SMALLEST_CHUNK, LARGEST_CHUNK = 64, 8192
"""How many places are evaluated at once: few at first, so that the first index comes at once."""


def positions(start: int, num_samples: int, world_size: int, seat: int, tail: Tail) -> range:
    """The positions that one seat takes of what is left of an epoch.

    Args:
        start: How many positions of the epoch are consumed, `0 <= start`.
        num_samples: Length of the epoch's order.
        world_size: Number of ranks, at least 1.
        seat: `0 <= seat < world_size`.
        tail: `"wrap"` (or `"fill"`) goes on past `num_samples`, so that every seat gets the same
            number; `"drop"` stops before the last, incomplete step; `"uneven"` stops at
            `num_samples`, where a seat may get one less.

    Examples:
        >>> [list(positions(6, 10, 3, seat, "wrap")) for seat in range(3)]
        [[6, 9], [7, 10], [8, 11]]
    """
    rest = max(num_samples - start, 0)
    if tail == "uneven":
        stop = start + rest
    elif tail == "drop":
        stop = start + rest // world_size * world_size
    else:
        stop = start - (-rest // world_size) * world_size
    return range(start + seat, stop, world_size)


@dataclass(frozen=True)
class Share(Sequence[int]):
    """The sample indices at `places` of an order: a lazy `Sequence[int]`, and a value.

    `len`, indexing and slicing are O(1) (a slice is a `Share`); so are `in` and `index` on the
    built-in orders, which can be inverted. Iteration reads the order in chunks.

    Attributes:
        order: The epoch's order.
        places: Positions in it; those from `len(order)` on wrap around to its head.

    Examples:
        >>> share = Share(range(10), range(2, 14, 4))  # rank 2 of 4: one place past the end
        >>> list(share), share.padding, 6 in share, share[1:]
        ([2, 6, 0], 1, True, Share(order=range(0, 10), places=range(6, 14, 4)))
    """

    order: Sequence[int]
    places: range

    def __post_init__(self) -> None:
        if self.places and (min(self.places[0], self.places[-1]) < 0 or not len(self.order)):
            raise ValueError(
                f"places must be positions, at least 0, of an order that is not empty, "
                f"got {self.places} of an order of {len(self.order)}"
            )

    def __len__(self) -> int:
        """How many indices there are, wrap-around repeats included."""
        return len(self.places)

    @overload
    def __getitem__(self, item: int) -> int: ...
    @overload
    def __getitem__(self, item: slice) -> Share: ...
    def __getitem__(self, item: int | slice) -> int | Share:
        """The index at one place, or the `Share` of a slice of places. Costs O(1)."""
        if isinstance(item, slice):
            return Share(self.order, self.places[item])
        try:
            place = self.places[operator.index(item)]
        except IndexError:
            raise IndexError(f"share index must be in [0, {len(self)}), got {item}") from None
        return read(self.order, range(place, place + 1))[0]

    def __iter__(self) -> Iterator[int]:
        """Iterate over the indices, as Python ints."""
        return chain.from_iterable(self.chunks())

    def chunks(self) -> Iterator[list[int]]:
        """The indices in lists that start small and grow to some thousands."""
        done, size = 0, SMALLEST_CHUNK
        while done < len(self.places):
            yield read(self.order, self.places[done : done + size])
            done, size = done + size, min(2 * size, LARGEST_CHUNK)

    def numpy(self) -> Any:
        """The indices as an array of signed 64-bit words, of shape `(len(share),)`.

        Costs O(len); of a part of the share, take a slice first.

        Raises:
            ImportError: NumPy is not installed.
        """
        from .arrays import array

        return array(self.order, self.places)

    def split(self, part: int, parts: int, *, batch_size: int = 1) -> Sequence[int]:
        """The indices that one of several processes loads for this rank.

        Part i holds the batches i, i + parts, … of the share: delivered in turn, as the workers of
        torch's DataLoader are asked, they are the batches of the share in its order.

        Args:
            part: Which one, `0 <= part < parts`: a worker's id.
            parts: How many processes load this share, at least 1.
            batch_size: Indices of a batch, at least 1; the last batch of the share may have less.

        Returns:
            A lazy sequence, and a value: it may be pickled. Costs O(1).

        Raises:
            TypeError: An argument is not an integer; it is named.
            ValueError: An argument is out of range; it is named.

        Examples:
            >>> share = Share(range(10), range(10))
            >>> [list(share.split(worker, 2, batch_size=3)) for worker in range(2)]
            [[0, 1, 2, 6, 7, 8], [3, 4, 5, 9]]
        """
        found = split(self, part, parts, batch_size)
        return found if found.batch_size > 1 else Share(self.order, self.places[part::parts])

    @property
    def padding(self) -> int:
        """How many of the last indices are wrap-around repeats: the others are real."""
        upwards = self.places if self.places.step > 0 else self.places[::-1]
        first = len(self.order) - upwards.start
        return max(0, len(upwards) - max(0, -(-first // upwards.step)))

    def __contains__(self, sample: object) -> bool:
        """Whether a sample is in the share. O(1) if the order can be inverted, else O(len)."""
        try:
            self.index(sample)
        except ValueError:
            return False
        return True

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Where a sample first stands in the share.

        O(1) if the order can be inverted (the repeats at the end apart), else O(len).

        Raises:
            ValueError: The sample is not in the share, or not in `[start, stop)` of it.
        """
        span = range(len(self))[start:stop]
        if isinstance(self.order, (FullOrder, range)):
            where = self._inverted(value, span)
        else:
            found = enumerate(self[span.start : span.stop], span.start)
            where = next((i for i, sample in found if sample == value), None)
        if where is None:
            raise ValueError(f"{value!r} is not in this share")
        return where

    def _inverted(self, value: object, span: range) -> int | None:
        length = len(self.order)
        if value not in self.order:
            return None
        position = self.order.index(cast(int, value))
        places = self.places[span.start : span.stop]
        real = [places.index(position)] if position in places else []
        # The repeats: less than one step's places, the last ones (or, backwards, the first).
        repeats = Share(self.order, places).padding
        first = len(places) - repeats if places.step > 0 else 0
        found = [i for i in range(first, first + repeats) if places[i] % length == position]
        return min((span.start + i for i in real + found), default=None)
