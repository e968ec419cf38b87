"""Another permutation in every epoch, in O(n ** 1/4) memory."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import integer, num_samples
from ..permutation import VERSION, Permutation


@dataclass(frozen=True)
class Shuffled:
    """Every epoch is a `Permutation`, keyed with (num_samples, seed, epoch)."""

    num_samples: int
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "num_samples", num_samples("num_samples", self.num_samples))
        object.__setattr__(self, "seed", integer("seed", self.seed))

    @property
    def fingerprint(self) -> str:
        """What a state says of this order when it is passed as `order=`."""
        return f"{VERSION} seed={self.seed}"

    def __call__(self, epoch: int) -> Permutation:
        """The order of one epoch."""
        return Permutation(self.num_samples, self.seed, epoch)
