"""A share as the `sampler=` of `grain.DataLoader`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .share import Share

if TYPE_CHECKING:
    from grain import RecordMetadata
    from numpy.random import Generator


@dataclass(frozen=True)
class GrainSampler:
    """What `grain.DataLoader` asks which record to load: those of one rank's share, in its order.

    The share is divided already: pass `shard_options=grain.sharding.NoSharding()` to the loader.
    Its `repr` names the share, so that Grain refuses a loader's state that was saved with another
    one: only the sampler's state resumes at another place, or world size.

    Attributes:
        share: The rank's share: a new one for each epoch.
        seed: Non-negative integers, such as `(seed, epoch)`. With it, each record has a generator
            of random numbers of its own, for `RandomMap`, seeded with its position in the epoch:
            the same at every world size, and after a resume. It costs some 12 µs per record.

    Raises:
        TypeError: `share` is not a `Share`.
    """

    share: Share
    seed: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.share, Share):
            raise TypeError(f"share must be a Share, as sampler.share() gives, got {self.share!r}")

    def __len__(self) -> int:
        """How many records there are, wrap-around repeats included."""
        return len(self.share)

    def __getitem__(self, index: int) -> RecordMetadata:
        """Which record comes at an index of the share."""
        from grain import RecordMetadata

        try:
            index = range(len(self))[operator.index(index)]
        except IndexError:
            raise IndexError(f"record index must be in [0, {len(self)}), got {index}") from None
        return RecordMetadata(index=index, record_key=self.share[index], rng=self._rng(index))

    def _rng(self, index: int) -> Generator | None:
        if self.seed is None:
            return None
        from numpy.random import Generator, Philox, SeedSequence

        return Generator(Philox(SeedSequence((*self.seed, self.share.places[index]))))
