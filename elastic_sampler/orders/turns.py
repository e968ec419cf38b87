"""Whose turn is it? Places dealt to parts in exact proportions, by arithmetic.

The weights, whole numbers without a common factor, add up to the *period* P: of P places in a row,
part i has `weights[i]`. Inside the period they are spread evenly: the parts are split in two halves
of weights L and R, and the place t of `L + R` is the left half's exactly if `(t + 1) * L // (L + R)
> t * L // (L + R)`; the left half's places are numbered `t * L // (L + R)`, the others by what is
left, and each half is split again. Nothing is tabulated: a place costs O(log(parts)), and so does a
count. Up to any place no part is off by more than the number of splits above it: one of two parts
by less than 1, one of 16 by less than 4.

A rank takes every W-th place, and must not meet the same part each time. So the places of each
window (64 of them, or P if that is less) are shuffled among themselves by a small keyed
permutation, which leaves the counts of the window as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from ..words import Words

WINDOW = 64
"""Places that are shuffled among themselves, at most."""


@dataclass(frozen=True)
class Cycle:
    """Whose turn is it? `weights[i]` of each `period` places are part i's, spread evenly.

    Attributes:
        weights: Whole numbers, at least 0, not all 0.
    """

    weights: tuple[int, ...]

    @cached_property
    def _sums(self) -> list[int]:
        return [0, *accumulate(self.weights)]

    @cached_property
    def period(self) -> int:
        """The sum of the weights."""
        return self._sums[-1]

    def turn(self, place: int) -> tuple[int, int]:
        """The part that a place belongs to, and how many places it has before it."""
        sums, low, high = self._sums, 0, len(self.weights)
        while high - low > 1:
            middle = (low + high) // 2
            left, both = sums[middle] - sums[low], sums[high] - sums[low]
            before = place * left // both
            if (place + 1) * left // both > before:
                place, high = before, middle
            else:
                place, low = place - before, middle
        return low, place

    def turns(self, np: Any, places: Any) -> tuple[Any, Any]:
        """The same of an array of places."""
        parts, turns = np.empty_like(places), np.empty_like(places)
        sums, todo = self._sums, [(0, len(self.weights), np.arange(len(places)), places)]
        while todo:
            low, high, where, place = todo.pop()
            if high - low == 1:
                parts[where], turns[where] = low, place
            elif len(where):
                middle = (low + high) // 2
                left, both = sums[middle] - sums[low], sums[high] - sums[low]
                before = place * left // both
                is_left = (place + 1) * left // both > before
                todo.append((low, middle, where[is_left], before[is_left]))
                todo.append((middle, high, where[~is_left], (place - before)[~is_left]))
        return parts, turns

    def _halves(self, part: int) -> list[tuple[bool, int, int]]:
        """From all parts down to one: is it in the left half; its weight; that of both."""
        found, sums, low, high = [], self._sums, 0, len(self.weights)
        while high - low > 1:
            middle = (low + high) // 2
            halves = (low, middle) if part < middle else (middle, high)
            both = sums[high] - sums[low]
            low, high = halves
            found.append((part < middle, sums[high] - sums[low], both))
        return found

    def count(self, part: int, stop: int) -> int:
        """How many of the first `stop` places are the part's."""
        for is_left, mine, both in self._halves(part):
            if not both:
                return 0
            stop = stop * mine // both if is_left else stop - stop * (both - mine) // both
        return stop

    def place(self, part: int, turn: int) -> int:
        """The place of a part's turn: the inverse of `turn`, for a part with a weight."""
        for is_left, mine, both in reversed(self._halves(part)):
            turn = -(-(turn + 1) * both // mine) - 1 if is_left else turn * both // mine
        return turn


@dataclass(frozen=True)
class Stretch:
    """The epochs from one on, mixed in the same proportions: an endless row of places.

    Attributes:
        first: The first epoch.
        cycle: Whose turn it is.
        length: Places of an epoch.
        turns: How many turns each part had before.
        words: The random words that shuffle windows.
    """

    first: int
    cycle: Cycle
    length: int
    turns: tuple[int, ...]
    words: Words

    @cached_property
    def window(self) -> int:
        """Places that are shuffled among themselves; the last of a period may be fewer."""
        return min(WINDOW, self.cycle.period)

    @cached_property
    def _windows(self) -> int:
        return -(-self.cycle.period // self.window)

    def start(self, epoch: int) -> int:
        """The place in the row at which an epoch begins."""
        return (epoch - self.first) * self.length

    def turns_before(self, epoch: int) -> tuple[int, ...]:
        """How many turns each part had before an epoch, rounded up to a whole window."""
        periods, rest = divmod(self.start(epoch), self.cycle.period)
        end = min(-(-rest // self.window) * self.window, self.cycle.period)
        return tuple(
            before + periods * weight + self.cycle.count(part, end)
            for part, (before, weight) in enumerate(
                zip(self.turns, self.cycle.weights, strict=True)
            )
        )

    def turn(self, place: int) -> tuple[int, int]:
        """The part that a place of the row belongs to, and the number of its turn."""
        cycle, length = self.cycle, self.window
        period, rest = divmod(place, cycle.period)
        window, inside = divmod(rest, length)
        size = min(length, cycle.period - window * length)
        word = self.words.at(period * self._windows + window)
        part, turn = cycle.turn(window * length + _swapped(inside, size, word))
        return part, self.turns[part] + period * cycle.weights[part] + turn

    def turns_at(self, np: Any, places: range) -> tuple[Any, Any]:
        """The same of a range of places, below 2**62."""
        row = np.arange(places.start, places.stop, places.step)
        period, rest = np.divmod(row, self.cycle.period)
        window, inside = np.divmod(rest, self.window)
        size = np.minimum(self.window, self.cycle.period - window * self.window)
        words = self.words.array(np, (period * self._windows + window).astype(np.uint64))
        rest = window * self.window + _swapped_all(np, inside, size, words)
        part, turn = self.cycle.turns(np, rest)
        turns, weights = np.array(self.turns), np.array(self.cycle.weights)
        return part, turns[part] + period * weights[part] + turn

    def place(self, part: int, turn: int) -> int:
        """The place of a part's turn: the inverse of `turn`, for a part with a weight."""
        period, turn = divmod(turn - self.turns[part], self.cycle.weights[part])
        window, inside = divmod(self.cycle.place(part, turn), self.window)
        size = min(self.window, self.cycle.period - window * self.window)
        word = self.words.at(period * self._windows + window)
        shuffled = [_swapped(place, size, word) for place in range(size)]
        return period * self.cycle.period + window * self.window + shuffled.index(inside)


# A small permutation of range(size), size <= 64, keyed by a word: rounds of x * odd + any, and of
# x ^ x >> half, are bijections of the next power of two; what falls outside goes round again.
_ROUNDS = [(12 * turn, 12 * turn + 6) for turn in range(4)]


def _swapped(place: int, size: int, word: int) -> int:
    bits = (size - 1).bit_length()
    mask, half = (1 << bits) - 1, (bits + 1) // 2
    while True:
        for factor, addend in _ROUNDS:
            place = (place * (word >> factor | 1) + (word >> addend)) & mask
            place ^= place >> half
        if place < size:
            return place


def _swapped_all(np: Any, places: Any, sizes: Any, words: Any) -> Any:
    places, todo = places.astype(np.uint64), np.arange(len(places))
    bits = np.array([(size - 1).bit_length() for size in range(WINDOW + 1)], dtype=np.uint64)[sizes]
    one = np.uint64(1)
    masks, halves = (one << bits) - one, (bits + one) // np.uint64(2)
    while len(todo):
        place, word, mask, half = places[todo], words[todo], masks[todo], halves[todo]
        for factor, addend in _ROUNDS:
            place = (place * (word >> np.uint64(factor) | one) + (word >> np.uint64(addend))) & mask
            place ^= place >> half
        places[todo] = place
        todo = todo[place >= sizes[todo].astype(np.uint64)]
    return places.astype(np.int64)
