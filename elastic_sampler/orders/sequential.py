"""0, 1, 2, …: the data as it lies, and the same begun at another place."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from ..checks import num_samples
from ..order import FullOrder


@dataclass(frozen=True)
class Sequential:
    """Every epoch is `range(num_samples)`."""

    num_samples: int
    fingerprint = "sequential"

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_samples", num_samples("num_samples", self.num_samples))

    def __call__(self, epoch: int) -> range:
        """The order of any epoch."""
        return range(self.num_samples)


@dataclass(frozen=True)
class Rotation(FullOrder):
    """`range(n)` begun at `origin`: position p holds `(p + origin) mod n`.

    Unshuffled epochs that end in wrap-around repeats begin each at another origin, so that it is
    not always the same samples that are repeated.
    """

    n: int
    origin: int

    def __len__(self) -> int:
        """How many indices there are."""
        return self.n

    def at(self, position: int) -> int:
        """The sample index at `position`, `0 <= position < n`."""
        return (position + self.origin) % self.n

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`, a range with a positive step. Costs O(len(places))."""
        origin = self.origin % self.n
        before = len(range(places.start, self.n - origin, places.step))
        laps = (places[:before], origin), (places[before:], origin - self.n)
        return list(chain.from_iterable(range(p.start + o, p.stop + o, p.step) for p, o in laps))

    def position(self, sample: int) -> int:
        """The position of `sample`, `0 <= sample < n`: the inverse of `at`."""
        return (sample - self.origin) % self.n
