"""The shuffle once more, in NumPy: fast enough to count over thousands of keys.

It reads the tables of a `Permutation` and does the rounds on arrays of unsigned 32-bit words, where
`minimum(x, x - a)` is the reduction: x - a wraps around to something large when x < a.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from elastic_sampler import Permutation
from elastic_sampler.permutation import _Feistel, _TwoTables


def shuffled(order: Permutation, places: range) -> Any:
    """`order[places]` as an array of unsigned 64-bit words, of a Feistel permutation."""
    shuffle = order._shuffle
    assert isinstance(shuffle, _Feistel)
    a, b = shuffle._a, shuffle._b
    position = np.arange(places.start, places.stop, places.step, dtype=np.uint64)
    left, right = (half.astype(np.uint32) for half in np.divmod(position, np.uint64(b)))
    for turn in range(0, 6, 2):
        for table, digits in looked_up(shuffle, turn, right):
            left = left + table.take(digits)
            np.minimum(left, left - np.uint32(a), out=left)
        for table, digits in looked_up(shuffle, turn + 1, left):
            right = right + table.take(digits)
            np.minimum(right, right - np.uint32(b), out=right)
    samples = left.astype(np.uint64) * np.uint64(b) + right
    for i in np.flatnonzero(samples >= order.n).tolist():
        samples[i] = order[places[i]]  # walked again: few
    return samples


def looked_up(shuffle: Any, turn: int, digit: Any) -> list[tuple[Any, Any]]:
    """The tables of one round function, each with what to look up in it."""
    if not isinstance(shuffle, _TwoTables):
        return [(np.asarray(shuffle._tables[turn], dtype=np.uint32), digit)]
    high, low = (np.asarray(table, dtype=np.uint32) for table in shuffle._tables[turn])
    bits = shuffle._low[(turn + 1) % 2]
    return [(high, digit >> np.uint32(bits)), (low, digit & np.uint32((1 << bits) - 1))]
