"""The same in NumPy: an accelerator, equal to the bit, where it is installed.

NumPy is imported when so many places are asked for at once that it is worth it, never before.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain, cycle
from typing import TYPE_CHECKING, Any

from .order import LazyOrder, laps, sliced

if TYPE_CHECKING:
    from types import ModuleType

    from .permutation import Feistel

WORTHWHILE = 512
"""From how many places on it is worth to import NumPy."""

WORTHWHILE_LOADED = 64
"""From how many places on an array is made faster than a list, where NumPy was imported before."""

CHUNK = 2**15
"""How many places are evaluated at once: what fits into a processor's cache."""


@lru_cache(maxsize=1)
def numpy() -> ModuleType | None:
    """NumPy, or None where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def worthwhile() -> int:
    """From how many places on an array is better than a list, now."""
    return WORTHWHILE if sys.modules.get("numpy") is None else WORTHWHILE_LOADED


class Rounds:
    """The rounds of a Feistel network over `range(a) x range(b)`, on arrays of positions.

    All digits are unsigned 32-bit words, a and b being at most 2**31. `minimum(x, x - m)` is
    x mod m for x < 2 * m: where x < m, x - m wraps around to something larger than x.

    Args:
        np: NumPy.
        network: The network: its sides, and the words of its tables.
    """

    def __init__(self, np: Any, network: Feistel) -> None:
        self._np, self._n, self._b = np, np.uint64(network.n), np.uint64(network.b)
        self._sides = np.uint32(network.a), np.uint32(network.b)
        self._low = [np.uint32(bits) for bits in network.low]
        self._masks = [np.uint32((1 << bits) - 1) for bits in network.low]
        ends = list(accumulate(chain.from_iterable(network.sizes)))
        words = iter(np.split(np.frombuffer(network.words, dtype="<u8"), ends[:-1]))
        self._tables = [
            [(next(words) % np.uint64(side)).astype(np.uint32) for _ in sizes]
            for sizes, side in zip(network.sizes, cycle(self._sides), strict=False)
        ]

    def take(self, places: range) -> Any:
        """The samples at `places`, as an array of unsigned 64-bit words."""
        return self.gather(self._np.arange(places.start, places.stop, places.step))

    def gather(self, positions: Any) -> Any:
        """The samples at any positions, as an array of unsigned 64-bit words."""
        np = self._np
        samples = self._once(np.asarray(positions, dtype=np.uint64))
        walk = np.flatnonzero(samples >= self._n)
        while walk.size:
            samples[walk] = again = self._once(samples[walk])
            walk = walk[again >= self._n]
        return samples

    def _once(self, position: Any) -> Any:
        np = self._np
        left = position // self._b
        right = (position - left * self._b).astype(np.uint32)
        left = left.astype(np.uint32)
        spare = np.empty_like(left)  # instead of new arrays in each turn
        for turn, tables in enumerate(self._tables):
            read, adds = (left, right) if turn % 2 else (right, left)
            digits = [read] if len(tables) == 1 else self._split(read, (turn + 1) % 2)
            for table, digit in zip(tables, digits, strict=True):
                table.take(digit, out=spare, mode="clip")  # none is clipped; to raise costs a copy
                adds += spare
                np.subtract(adds, self._sides[turn % 2], out=spare)
                np.minimum(adds, spare, out=adds)
        return left.astype(np.uint64) * self._b + right

    def _split(self, digit: Any, side: int) -> list[Any]:
        return [digit >> self._low[side], digit & self._masks[side]]


def array(order: Sequence[int], places: range) -> Any:
    """`read(order, places)` as an array of signed 64-bit words. Costs O(len(places)).

    Raises:
        ImportError: NumPy is not installed.
    """
    np = numpy()
    if np is None:
        raise ImportError("arrays need NumPy: pip install numpy")
    if places.step < 0:
        return array(order, places[::-1])[::-1]
    found, done = np.empty(len(places), dtype=np.int64), 0
    for lap in laps(places, len(order)):
        for begin in range(0, len(lap), CHUNK):
            chunk = lap[begin : begin + CHUNK]
            make = order.array if isinstance(order, LazyOrder) else partial(sliced, order)
            found[done : done + len(chunk)] = make(chunk)
            done += len(chunk)
    return found
