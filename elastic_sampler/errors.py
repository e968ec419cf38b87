"""The exceptions and warnings of this package.

```
ElasticSamplerError
├── StateError (ValueError)       a saved state does not fit, or is malformed
├── LoaderMismatchError           a tracked loader does not deliver this sampler's share
├── ProviderError                 a provider is unknown or broken
│   └── NoAnswerError             a provider was asked by name, and has no answer
└── WorldError                    which rank, of how many?
    ├── WorldRefusedError         the evidence is half there, malformed or contradicts itself
    ├── WorldConflictError        two pieces of evidence contradict each other
    └── WorldLostError            a provider answered before, and now nobody does

ElasticSamplerWarning (UserWarning)
├── IssuedNotTrainedWarning       a state counts what was drawn, not what was trained
├── ResumeWarning                 an epoch was set that does not continue the loaded state
├── RepeatedEpochWarning          the same shuffled epoch ran twice without `set_epoch`
├── UnsplitShareWarning           each of several loader workers iterates over the whole share
├── UnequalSharesWarning          a global batch is not divisible by the world size
└── WorldChangedWarning           `len` was told by a lone process, the iteration by several ranks
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .world import Nearness


class ElasticSamplerError(Exception):
    """Base of every error that this package raises on purpose, arguments apart."""


class StateError(ElasticSamplerError, ValueError):
    """A state cannot be loaded: it names the field, both values, and nothing was changed."""


class LoaderMismatchError(ElasticSamplerError):
    """A tracked loader does not deliver what this sampler dealt to this rank."""


class ProviderError(ElasticSamplerError):
    """A provider is unknown, or broken: plug-in and distribution are named."""


class NoAnswerError(ProviderError):
    """A provider was asked for by name and has no answer: it says what it looked at."""


class WorldError(ElasticSamplerError):
    """The rank and the world size of this process cannot be told."""


class WorldRefusedError(WorldError):
    """A provider's evidence is there but cannot be used: a half pair, or a malformed value.

    Attributes:
        nearness: How near to this process the evidence is. A refusal is an answer: it is raised
            unless a nearer provider gave a world.
    """

    def __init__(self, message: str, nearness: Nearness) -> None:
        super().__init__(message)
        self.nearness = nearness

    def __reduce__(self) -> tuple[Any, ...]:
        # Loader workers and process pools send their errors home in a pickle.
        return type(self), (str(self), self.nearness)


class WorldConflictError(WorldError):
    """Two providers gave different worlds, and neither is near enough to settle it."""


class WorldLostError(WorldError):
    """A provider answered before and nobody answers now: a process group was destroyed, say."""


class ElasticSamplerWarning(UserWarning):
    """Base of every warning of this package."""


class IssuedNotTrainedWarning(ElasticSamplerWarning):
    """The state counts indices that were drawn: a loader that prefetches is ahead of training."""


class ResumeWarning(ElasticSamplerWarning):
    """`set_epoch` after a load names an epoch that does not continue what was loaded."""


class RepeatedEpochWarning(ElasticSamplerWarning):
    """One shuffled epoch was iterated to its end twice: `set_epoch` was forgotten."""


class UnsplitShareWarning(ElasticSamplerWarning):
    """A sampler is iterated in one of several loader workers: each gets the whole share."""


class UnequalSharesWarning(ElasticSamplerWarning):
    """A global batch is not divisible by the world size: `loss_scale` weighs the ranks' losses."""


class WorldChangedWarning(ElasticSamplerWarning):
    """A length was computed for one lone process, and then there were several ranks."""
