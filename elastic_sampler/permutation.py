"""The shuffle: a keyed bijection of `range(n)`, evaluated position by position.

For each (n, seed, epoch), `Permutation` is a bijection of `range(n)` (law 1); nothing of size n is
ever built. The order is a contract with every saved checkpoint: it never changes within
`shuffled/1`, and golden files pin it.

The algorithm, which a reader can repeat in any language:

* Words: 64-bit little-endian words of SHAKE-256 (FIPS 202) over the ASCII text
  `elastic-sampler shuffled/1 n seed epoch`, the numbers in hexadecimal. `word % m` is taken for a
  number below m: the bias is under m / 2**64.
* n <= 4096: Fisher-Yates (Durstenfeld's form) with one word a swap, from the last place down. A
  short cipher is measurably not uniform at such sizes; this is, but for the bias.
* Above: position = left * b + right with b = ceil(sqrt(n)), a = ceil(n / b), and six rounds of a
  generalised Feistel network over `range(a) x range(b)` (J. Black and P. Rogaway, "Ciphers with
  Arbitrary Finite Domains", CT-RSA 2002): left += f(right) mod a, right += g(left) mod b, three
  times. A result of n or more is sent through again ("cycle walking"); as a * b - n < b, that
  happens to less than one position in b.
* f and g are tables of words. While b <= 2048: one word for each digit. Above: the sum of two
  words, one for the digit's high and one for its low bits (tabulation hashing: M. Patrascu and
  M. Thorup, "The Power of Simple Tabulation Hashing", 2012), so that set-up and memory are
  O(n ** 1/4).

Six rounds: with four, measured once before this was settled, twice as many successors stay
successors as in a random permutation. With six the right number of neighbours do, which
`tests/test_permutation.py` counts for both kinds of tables.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import shake_256
from itertools import islice
from math import isqrt
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from .arrays import Rounds, numpy, worthwhile
from .checks import integer, num_samples
from .order import FullOrder

VERSION = "shuffled/1"
"""The algorithm, as states name it. Another algorithm needs another name, and a major release."""

EXACT = 4096
"""Up to this n the shuffle is an exact one."""

ONE_TABLE = 2048
"""Up to this side a round function is one table; above, the sum of two small ones."""

_ROUNDS = 6


@dataclass(frozen=True)
class Permutation(FullOrder):
    """A pseudo-random bijection of `range(n)`, the same for the same (n, seed, epoch) everywhere.

    Indexing, slicing and `index` cost the number of places asked for. The first of them sets up
    O(n ** 1/4) words (O(n ** 1/2) below four million): at most 2 ms at any n up to 10**12.

    Args:
        n: How many indices, `0 <= n <= 2**62`.
        seed: Any integer; no two integers are the same seed.
        epoch: At least 0.
        exact: Internal: up to which n the shuffle is an exact one.
        one_table: Internal: up to which side a round function is one table.

    Examples:
        >>> list(Permutation(8, seed=0, epoch=0))
        [7, 6, 1, 4, 5, 3, 2, 0]
        >>> shuffle = Permutation(10**12, seed=0, epoch=0)
        >>> shuffle.index(shuffle[999_999_999_999])
        999999999999
    """

    n: int
    seed: int
    epoch: int
    exact: int = field(default=EXACT, repr=False)
    one_table: int = field(default=ONE_TABLE, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", num_samples("n", self.n))
        object.__setattr__(self, "seed", integer("seed", self.seed))
        object.__setattr__(self, "epoch", integer("epoch", self.epoch, 0))

    def __len__(self) -> int:
        """How many indices there are."""
        return self.n

    def at(self, position: int) -> int:
        """The sample index at `position`, `0 <= position < n`."""
        return self._shuffle.at(position)

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`, a range with a positive step. Costs O(len(places))."""
        return self._shuffle.take(places)

    def array(self, places: range) -> Any:
        """As `take`; an array where NumPy is installed and it is worth it."""
        return self._shuffle.array(places)

    def gather(self, positions: Any) -> Any:
        """The samples at any positions; an array where NumPy is installed and it is worth it."""
        return self._shuffle.gather(positions)

    def position(self, sample: int) -> int:
        """The position of `sample`, `0 <= sample < n`: the inverse of `at`."""
        return self._shuffle.position(sample)

    @cached_property
    def _shuffle(self) -> _Exact | Feistel:
        """The tables: shared by the permutations of one key, and freed with the last of them."""
        key = self.n, self.seed, self.epoch, self.exact, self.one_table
        found = _shared.get(key)
        if found is None:
            found = _shared[key] = self._set_up()
        return found

    def _set_up(self) -> _Exact | Feistel:
        key = f"elastic-sampler {VERSION} {self.n:x} {self.seed:x} {self.epoch:x}".encode()
        if self.n <= self.exact:
            return _Exact(self.n, key)
        b = isqrt(self.n - 1) + 1
        shape = _OneTable if b <= self.one_table else _TwoTables
        return shape(self.n, -(-self.n // b), b, key)

    def __getstate__(self) -> dict[str, int]:
        # Tables are cheap to make again, and dear to send.
        return {name: value for name, value in vars(self).items() if name != "_shuffle"}


_Key: TypeAlias = tuple[int, int, int, int, int]
_shared: WeakValueDictionary[_Key, _Exact | Feistel] = WeakValueDictionary()


def _digest(key: bytes, count: int) -> bytes:
    return shake_256(key).digest(8 * count)


def _unpacked(words: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(words) // 8}Q", words)


class _Exact:
    """A Fisher-Yates shuffle, kept as a list."""

    def __init__(self, n: int, key: bytes) -> None:
        self._order, words = list(range(n)), _unpacked(_digest(key, max(n - 1, 0)))
        for last, word in zip(range(n - 1, 0, -1), words, strict=True):
            other = word % (last + 1)
            self._order[last], self._order[other] = self._order[other], self._order[last]

    def at(self, position: int) -> int:
        return self._order[position]

    def take(self, places: range) -> list[int]:
        return self._order[places.start : places.stop : places.step]

    array = take

    def gather(self, positions: Any) -> list[int]:
        return [self._order[position] for position in positions]

    def position(self, sample: int) -> int:
        return self._inverse[sample]

    @cached_property
    def _inverse(self) -> list[int]:
        return sorted(range(len(self._order)), key=self._order.__getitem__)


class Feistel:
    """Six rounds over `range(a) x range(b)`, walked until the result is below n.

    Attributes:
        n: Results of n or more are sent through again.
        a: The left side.
        b: The right side.
        sizes: For each turn the size of the one table of its round function, or of the two of the
            high and the low bits.
        low: For the left and the right digit, how many bits are low ones.
        words: The 64-bit words that the tables are made of, one after the other.
    """

    def __init__(
        self, n: int, a: int, b: int, key: bytes, sizes: list[list[int]], low: tuple[int, int]
    ) -> None:
        self.n, self.a, self.b, self.sizes, self.low = n, a, b, sizes, low
        self.words = _digest(key, sum(map(sum, sizes)))

    def _tables(self) -> Iterator[list[list[int]]]:
        """For each turn its tables: of what is added to the left digit, then to the right one."""
        words = iter(_unpacked(self.words))
        for turn, sizes in enumerate(self.sizes):
            adds = (self.a, self.b)[turn % 2]
            yield [[word % adds for word in islice(words, size)] for size in sizes]

    @cached_property
    def _rounds(self) -> Rounds | None:
        np = numpy()
        if np is None:
            return None
        return Rounds(np, self)

    def at(self, position: int) -> int:
        """The sample at a position."""
        return self._walked(range(position, position + 1))[0]

    def take(self, places: range) -> list[int]:
        """The samples at some places."""
        found: Any = self.array(places)
        samples: list[int] = found if isinstance(found, list) else found.tolist()
        return samples

    def array(self, places: range) -> Any:
        """The same, an array where that is faster."""
        if len(places) >= worthwhile() and self._rounds is not None:
            return self._rounds.take(places)
        return self._walked(places)

    def gather(self, positions: Any) -> Any:
        """The samples at any positions, an array where that is faster."""
        if len(positions) >= worthwhile() and self._rounds is not None:
            return self._rounds.gather(positions)
        return self._walked(list(map(int, positions)))

    def _walked(self, places: Sequence[int]) -> list[int]:
        samples = self._once(places)
        if self.n < self.a * self.b and max(samples, default=0) >= self.n:
            # Some are walked again; the digit pairs past n are few, so this ends soon.
            samples = [s if s < self.n else self.at(s) for s in samples]
        return samples

    def position(self, sample: int) -> int:
        """The position of a sample."""
        position = self._back(sample)
        while position >= self.n:
            position = self._back(position)
        return position

    def _back(self, sample: int) -> int:
        left, right = divmod(sample, self.b)
        for turn in range(_ROUNDS - 2, -1, -2):
            right = (right - self._f(turn + 1, left)) % self.b
            left = (left - self._f(turn, right)) % self.a
        return left * self.b + right

    def _once(self, positions: Sequence[int]) -> list[int]:
        """All rounds, once, for each position."""
        raise NotImplementedError

    def _f(self, turn: int, digit: int) -> int:
        """The round function of one turn, at a digit of the side that it reads."""
        raise NotImplementedError


class _OneTable(Feistel):
    """Each round function is one table: a word for each digit.

    In `_once` the digits grow from round to round instead of being reduced: the table of round i
    is written i more times in a row, so that it can be read at them. Two reductions are left of
    six.
    """

    def __init__(self, n: int, a: int, b: int, key: bytes) -> None:
        super().__init__(n, a, b, key, [[b], [a]] * (_ROUNDS // 2), (0, 0))

    @cached_property
    def _grown(self) -> list[list[int]]:
        digits = list(range(max(self.a, self.b)))  # shared by all, instead of an object for each
        return [
            [digits[word] for word in table] * (turn // 2 + turn % 2 + 1)
            for turn, (table,) in enumerate(self._tables())
        ]

    def _once(self, positions: Sequence[int]) -> list[int]:
        a, b = self.a, self.b
        f0, g0, f1, g1, f2, g2 = self._grown
        return [
            left % a * b + (right + g2[left]) % b
            for position in positions
            for left in (position // b,)
            for right in (position - left * b,)
            for left in (left + f0[right],)
            for right in (right + g0[left],)
            for left in (left + f1[right],)
            for right in (right + g1[left],)
            for left in (left + f2[right],)
        ]

    def _f(self, turn: int, digit: int) -> int:
        return self._grown[turn][digit]


class _TwoTables(Feistel):
    """Each round function is the sum of two tables: for the high bits of a digit, and the low."""

    def __init__(self, n: int, a: int, b: int, key: bytes) -> None:
        low = (a - 1).bit_length() // 2, (b - 1).bit_length() // 2
        of_a, of_b = (
            [((s - 1) >> bits) + 1, 1 << bits] for s, bits in zip((a, b), low, strict=True)
        )
        super().__init__(n, a, b, key, [of_b, of_a] * (_ROUNDS // 2), low)

    @cached_property
    def _pairs(self) -> list[list[list[int]]]:
        return list(self._tables())

    def _once(self, positions: Sequence[int]) -> list[int]:
        a, b = self.a, self.b
        low_a, low_b = self.low
        mask_a, mask_b = (1 << low_a) - 1, (1 << low_b) - 1
        (f0, e0), (g0, h0), (f1, e1), (g1, h1), (f2, e2), (g2, h2) = self._pairs
        return [
            left * b + (right + g2[left >> low_a] + h2[left & mask_a]) % b
            for position in positions
            for left in (position // b,)
            for right in (position - left * b,)
            for left in ((left + f0[right >> low_b] + e0[right & mask_b]) % a,)
            for right in ((right + g0[left >> low_a] + h0[left & mask_a]) % b,)
            for left in ((left + f1[right >> low_b] + e1[right & mask_b]) % a,)
            for right in ((right + g1[left >> low_a] + h1[left & mask_a]) % b,)
            for left in ((left + f2[right >> low_b] + e2[right & mask_b]) % a,)
        ]

    def _f(self, turn: int, digit: int) -> int:
        high, low = self._pairs[turn]
        bits = self.low[(turn + 1) % 2]
        return high[digit >> bits] + low[digit & ((1 << bits) - 1)]
