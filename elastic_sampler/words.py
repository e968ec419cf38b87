"""Random words that are numbered: word j is a function of (key, j), whatever was asked before.

The generator is SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast Splittable Pseudorandom Number
Generators", OOPSLA 2014) with a key of 127 bits: its state before output j is `start + j * gamma`,
so that any output can be computed by itself. `start` and `gamma` come from SHAKE-256 of a text;
`gamma` is odd, and one with too few changes between neighbouring bits is mended as in that paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import shake_256
from typing import Any

_MASK = 2**64 - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def seed_of(text: str) -> int:
    """A seed of 128 bits from a text: what belongs to one seed and is to be independent."""
    return int.from_bytes(shake_256(text.encode()).digest(16), "little")


@dataclass(frozen=True)
class Words:
    """The words of one key.

    Attributes:
        start: 64 bits.
        gamma: 64 bits, odd.
    """

    start: int
    gamma: int

    @classmethod
    def of(cls, text: str) -> Words:
        """The words of a key that a text names."""
        key = seed_of(text)
        gamma = key >> 64 | 1
        if (gamma ^ gamma >> 1).bit_count() < 24:
            gamma ^= 0xAAAAAAAAAAAAAAAA
        return cls(key & _MASK, gamma)

    def at(self, number: int) -> int:
        """The word of a number."""
        return self.take(range(number, number + 1))[0]

    def take(self, numbers: range) -> list[int]:
        """The words of these numbers, each below 2**64."""
        start, gamma = self.start, self.gamma
        return [
            z ^ z >> 31
            for number in numbers
            for z in (start + number * gamma & _MASK,)
            for z in ((z ^ z >> 30) * _FIRST & _MASK,)
            for z in ((z ^ z >> 27) * _SECOND & _MASK,)
        ]

    def array(self, np: Any, numbers: Any) -> Any:
        """The words of an array of unsigned 64-bit numbers, equal to the bit."""
        z = numbers * np.uint64(self.gamma)
        z += np.uint64(self.start)
        for shift, factor in ((30, _FIRST), (27, _SECOND)):
            z ^= z >> np.uint64(shift)
            z *= np.uint64(factor)
        z ^= z >> np.uint64(31)
        return z
