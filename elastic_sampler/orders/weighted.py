"""Samples drawn by weight, the same draws on every rank: balanced classes, importance sampling.

*With replacement*, draw j of epoch e is a function of (weights, seed, e, j): the word number j
(`words.py`) of the epoch, scaled to `[0, total)` by the upper half of a 128-bit product, is looked
up in the table of cumulative weights. *Without replacement* it is a race: sample i arrives at the
time -ln(u) / weight, with u from word i of the epoch, and the first ones are taken, in the order
of their arrival (P. Efraimidis and P. Spirakis, "Weighted random sampling with a reservoir", 2006).

Both use integers and the four basic operations of doubles only, whose results are the same
everywhere: with NumPy, which makes it faster, and without.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, SupportsFloat

from ..arrays import CHUNK, WORTHWHILE, numpy
from ..checks import integer
from ..checks import num_samples as checked_num_samples
from ..columns import digest, reals
from ..order import LazyOrder
from ..words import Words
from .listed import Listed

_PARTS = 16
"""In so many parts a race of many is sorted."""

_BITS = 62
"""Cumulative weights are integers whose total has so many bits."""


class Weighted:
    """Each epoch draws samples with probabilities proportional to their weights.

    Args:
        weights: One for each sample of the data set: finite, at least 0, not all 0. An array of
            doubles (NumPy's, the standard library's) is copied at once, anything else one by one.
        num_samples: How many draws an epoch has. By default as many as there are weights; without
            replacement, as many as there are positive ones.
        replacement: Whether a sample can be drawn again in the same epoch.
        seed: Any integer, the same on all ranks.

    Costs: 16 bytes a weight with replacement, made once in O(len(weights)); then a draw costs
    O(log(len(weights))), and a resume at any draw nothing. Without replacement an epoch has a list
    of its draws, 4 bytes each, sorted in O(n log n) when the epoch begins.

    Raises:
        TypeError: An argument has the wrong type; it is named.
        ValueError: A weight is negative, infinite or not a number (its position is named), all are
            0, or without replacement there are fewer positive ones than `num_samples`.

    Examples:
        >>> order = Weighted([1, 0, 3], num_samples=8, seed=0)
        >>> list(order(0)), list(order(1))
        ([2, 2, 2, 0, 2, 2, 2, 2], [0, 2, 0, 2, 0, 2, 0, 2])
    """

    def __init__(
        self,
        weights: Iterable[SupportsFloat],
        num_samples: int | None = None,
        *,
        replacement: bool = True,
        seed: int = 0,
    ) -> None:
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement must be True or False, got {replacement!r}")
        if num_samples is not None:
            num_samples = checked_num_samples("num_samples", num_samples)
        self.num_samples = num_samples
        self.replacement, self.seed = replacement, integer("seed", seed)
        self._weights = {0: self._checked(weights)}

    def set_weights(self, weights: Iterable[SupportsFloat], *, epoch: int) -> None:
        """Draw by other weights from the beginning of an epoch on.

        Say the next one: `order.set_weights(new, epoch=sampler.epoch + 1)`. What is under way is
        not touched. All ranks must set the same weights; their digest is in the state. The weights
        of the epoch before are kept, older ones are not.

        Raises:
            TypeError, ValueError: As for the constructor; then nothing was changed.
        """
        epoch = integer("epoch", epoch, 0)
        checked = self._checked(weights)
        before = [first for first in self._weights if first < epoch]
        kept = {max(before): self._weights[max(before)]} if before else {}
        self._weights = {**kept, epoch: checked}

    def __call__(self, epoch: int) -> LazyOrder[int]:
        """The draws of one epoch."""
        weights = self._of(epoch)
        words = Words.of(f"elastic-sampler weighted/1 {self.seed:x} {epoch:x}")
        if not self.replacement:
            count = weights.positive if self.num_samples is None else self.num_samples
            return Listed(weights.race(words, count))
        count = len(weights.values) if self.num_samples is None else self.num_samples
        return Draws(weights, words, count)

    def fingerprint(self, epoch: int) -> str:
        """What a state says of this order: its seed, and a digest of the epoch's weights."""
        kind = "weighted/1" if self.replacement else "weighted/1 without replacement"
        return f"{kind} seed={self.seed} weights={self._of(epoch).digest}"

    def _of(self, epoch: int) -> Weights:
        first = max((first for first in self._weights if first <= epoch), default=None)
        if first is None:
            raise ValueError(
                f"the weights of epoch {epoch} are no longer known: those from epoch "
                f"{min(self._weights)} on are; make another Weighted, or go on from there"
            )
        return self._weights[first]

    def _checked(self, weights: Iterable[SupportsFloat]) -> Weights:
        found = Weights(reals("weights", weights))
        if not found.positive:
            raise ValueError(f"weights must not all be 0, got {len(found.values)} of them")
        wanted = self.num_samples or 0
        if not self.replacement and wanted > found.positive:
            raise ValueError(
                f"num_samples must be at most the number of positive weights without replacement, "
                f"got {wanted} of {found.positive}"
            )
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint(max(self._weights))})"


@dataclass(frozen=True)
class Weights:
    """Checked weights, and what is drawn by them. Equal if their digests are.

    Attributes:
        values: The weights.
    """

    values: array[float] = field(repr=False, compare=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest(self.values))

    @cached_property
    def positive(self) -> int:
        """How many are more than 0."""
        return len(self.values) - self.values.count(0.0)

    @cached_property
    def cumulative(self) -> array[int]:
        """Up to and with each sample: the sum of the weights, as integers.

        Each weight is scaled by one power of two, so that all together are in [2**61, 2**62), and
        rounded up: no positive one becomes 0, and no probability is off by more than 2**-61.
        """
        scale = _BITS - math.frexp(math.fsum(self.values))[1]
        np = numpy()
        if np is None or len(self.values) < WORTHWHILE:
            whole = (max(math.ceil(math.ldexp(w, scale)), w > 0) for w in self.values)
            return array("Q", accumulate(whole))
        table = array("Q", bytes(8 * len(self.values)))
        values, sums = np.frombuffer(self.values), np.frombuffer(table, dtype=np.uint64)
        before = np.uint64(0)
        for begin in range(0, len(table), CHUNK):
            some = values[begin : begin + CHUNK]
            whole = np.maximum(np.ceil(np.ldexp(some, scale)), some > 0).astype(np.uint64)
            sums[begin : begin + CHUNK] = np.cumsum(whole) + before
            before = sums[min(begin + CHUNK, len(table)) - 1]
        return table

    def race(self, words: Words, count: int) -> array[int]:
        """The first `count` samples of an exponential race. Costs O(n log n)."""
        np = numpy()
        if np is None or len(self.values) < WORTHWHILE:
            runners = [i for i, weight in enumerate(self.values) if weight]
            times = map(_time, words.take(range(len(self.values))), self.values)
            arrival = list(times)
            return array("q", sorted(runners, key=arrival.__getitem__)[:count])
        values = np.frombuffer(self.values)
        arrival = np.empty(len(values))
        for begin in range(0, len(values), CHUNK):
            some = values[begin : begin + CHUNK]
            numbers = np.arange(begin, begin + len(some), dtype=np.uint64)
            arrival[begin : begin + CHUNK] = _times(np, words.array(np, numbers), some)
        # Sorted in parts, from the earliest on: a sort of all at once takes twice the memory.
        some = arrival[:: len(arrival) // 4096 + 1]
        borders = np.sort(some[~np.isnan(some)])[:: len(some) // _PARTS + 1].tolist()
        found = array("I" if len(values) <= 2**32 else "q")
        for low, high in zip([-math.inf, *borders], [*borders, None], strict=True):
            here = arrival >= low
            if high is not None:
                here &= arrival < high
            runners = np.flatnonzero(here)
            runners = runners[np.argsort(arrival[runners], kind="stable")]
            found.frombytes(runners[: count - len(found)].astype(found.typecode).tobytes())
            if len(found) >= count:
                break
        return found

    def __getstate__(self) -> dict[str, Any]:
        # The table is made again where it is needed.
        return {name: value for name, value in vars(self).items() if name != "cumulative"}


@dataclass(frozen=True)
class Draws(LazyOrder[int]):
    """Draws with replacement: draw j is a function of the weights, the words' key and j.

    Attributes:
        weights: What is drawn from.
        words: The random words of the epoch.
        draws: How many there are.
    """

    weights: Weights
    words: Words
    draws: int

    def __len__(self) -> int:
        """How many draws there are."""
        return self.draws

    def take(self, places: range) -> list[int]:
        """The samples drawn at `places`. Costs O(log(len(weights))) each."""
        if len(places) >= WORTHWHILE and numpy() is not None:
            samples: list[int] = self.array(places).tolist()
            return samples
        table = self.weights.cumulative
        total = table[-1]
        return [bisect_right(table, word * total >> 64) for word in self.words.take(places)]

    def array(self, places: range) -> Any:
        """As `take`; an array where NumPy is installed and it is worth it."""
        np = numpy()
        if np is None or len(places) < WORTHWHILE:
            return self.take(places)
        table = np.frombuffer(self.weights.cumulative, dtype=np.uint64)
        numbers = np.arange(places.start, places.stop, places.step, dtype=np.uint64)
        at = _upper_half(np, self.words.array(np, numbers), int(table[-1]))
        ascending = np.argsort(at)  # a large table is read from its beginning to its end
        samples = np.empty(len(at), dtype=np.int64)
        samples[ascending] = np.searchsorted(table, at[ascending], side="right")
        return samples


def _upper_half(np: Any, words: Any, factor: int) -> Any:
    """`words * factor >> 64`, of unsigned 64-bit words and a factor below 2**63."""
    half, mask = np.uint64(32), np.uint64(2**32 - 1)
    high, low = np.uint64(factor >> 32), np.uint64(factor & (2**32 - 1))
    top, bottom = words >> half, words & mask
    middle = top * low + (bottom * low >> half)  # below 2**64: (2**32 - 1) * 2**32
    carry = (middle & mask) + bottom * high
    return top * high + (middle >> half) + (carry >> half)


# The logarithm of libraries differs in the last bit from one machine to the next: this one, in
# basic operations, does not. ln(m) = 2 * artanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
_SERIES = [2.0 / odd for odd in range(25, 0, -2)]
_HALF = math.sqrt(0.5)
_LN2 = math.log(2)


def _time(word: int, weight: float) -> float:
    """When a runner arrives: exponentially distributed, its rate the weight."""
    if not weight:
        return math.nan
    m, e = math.frexp(((word >> 12) + 0.5) * 2.0**-52)
    if m < _HALF:
        m, e = m * 2.0, e - 1
    s = (m - 1.0) / (m + 1.0)
    z, series = s * s, 0.0
    for term in _SERIES:
        series = series * z + term
    return -(e * _LN2 + series * s) / weight


def _times(np: Any, words: Any, weights: Any) -> Any:
    """The same on arrays, in the same operations."""
    m, e = np.frexp(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)
    small = m < _HALF
    m, e = np.where(small, m * 2.0, m), e - small
    s = (m - 1.0) / (m + 1.0)
    z, series = s * s, np.zeros_like(s)
    for term in _SERIES:
        series = series * z + term
    with np.errstate(divide="ignore", over="ignore"):
        times = -(e * _LN2 + series * s) / weights
    times[weights == 0] = np.nan  # sorted behind all others
    return times
