"""Deal an epoch to ranks that come and go: each sample exactly once, at any chain of world sizes.

```python
from elastic_sampler import ElasticDistributedSampler

sampler = ElasticDistributedSampler(dataset, shuffle=True, seed=0)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .audit import Audit, audit
from .batch_sampler import ElasticBatchSampler
from .batches import Batches
from .errors import (
    ElasticSamplerError,
    ElasticSamplerWarning,
    IssuedNotTrainedWarning,
    LoaderMismatchError,
    NoAnswerError,
    ProviderError,
    RepeatedEpochWarning,
    ResumeWarning,
    StateError,
    UnequalSharesWarning,
    WorldChangedWarning,
    WorldConflictError,
    WorldError,
    WorldLostError,
    WorldRefusedError,
)
from .order import EpochOrder, FullOrder, LazyOrder
from .permutation import Permutation
from .plugins import register, unregister
from .sample_log import SampleLog
from .sampler import ElasticDistributedSampler
from .share import Share
from .simulate import Report, simulate
from .state import State
from .world import Nearness, World

if TYPE_CHECKING:
    from .hookspecs import hookimpl

__all__ = [
    "Audit",
    "Batches",
    "ElasticBatchSampler",
    "ElasticDistributedSampler",
    "ElasticSamplerError",
    "ElasticSamplerWarning",
    "EpochOrder",
    "FullOrder",
    "IssuedNotTrainedWarning",
    "LazyOrder",
    "LoaderMismatchError",
    "Nearness",
    "NoAnswerError",
    "Permutation",
    "ProviderError",
    "RepeatedEpochWarning",
    "Report",
    "ResumeWarning",
    "SampleLog",
    "Share",
    "State",
    "StateError",
    "UnequalSharesWarning",
    "World",
    "WorldChangedWarning",
    "WorldConflictError",
    "WorldError",
    "WorldLostError",
    "WorldRefusedError",
    "__version__",
    "audit",
    "hookimpl",
    "register",
    "simulate",
    "unregister",
]

__version__: str


def __getattr__(name: str) -> object:
    # Reached lazily: pluggy is behind the one, importlib.metadata behind the other.
    if name == "hookimpl":
        from .hookspecs import hookimpl

        return hookimpl
    if name == "__version__":
        from importlib.metadata import version

        return version("elastic-sampler")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
