"""Deal an epoch to ranks that come and go: each sample exactly once, at any chain of world sizes.

```python
from elastic_sampler import ElasticDistributedSampler

sampler = ElasticDistributedSampler(dataset, shuffle=True, seed=0)
```

Public names are loaded when they are first used: to import the package costs next to nothing.
"""

TYPE_CHECKING = False  # for type checkers, without importing typing
if TYPE_CHECKING:
    from .auditing import Audit as Audit
    from .auditing import EpochAudit as EpochAudit
    from .auditing import Findings as Findings
    from .auditing import audit as audit
    from .batch_sampler import ElasticBatchSampler as ElasticBatchSampler
    from .batches import Batches as Batches
    from .batches import Batching as Batching
    from .errors import ElasticSamplerError as ElasticSamplerError
    from .errors import ElasticSamplerWarning as ElasticSamplerWarning
    from .errors import IssuedNotTrainedWarning as IssuedNotTrainedWarning
    from .errors import LoaderMismatchError as LoaderMismatchError
    from .errors import NoAnswerError as NoAnswerError
    from .errors import ProviderError as ProviderError
    from .errors import RepeatedEpochWarning as RepeatedEpochWarning
    from .errors import ResumeWarning as ResumeWarning
    from .errors import StateError as StateError
    from .errors import UnequalSharesWarning as UnequalSharesWarning
    from .errors import UnsplitShareWarning as UnsplitShareWarning
    from .errors import WorldChangedWarning as WorldChangedWarning
    from .errors import WorldConflictError as WorldConflictError
    from .errors import WorldError as WorldError
    from .errors import WorldLostError as WorldLostError
    from .errors import WorldRefusedError as WorldRefusedError
    from .hookspecs import hookimpl as hookimpl
    from .iteration import Iteration as Iteration
    from .location import Location as Location
    from .order import EpochOrder as EpochOrder
    from .order import FullOrder as FullOrder
    from .order import LazyOrder as LazyOrder
    from .permutation import Permutation as Permutation
    from .picture import Band as Band
    from .picture import Mark as Mark
    from .plugins import register as register
    from .plugins import unregister as unregister
    from .sample_log import Entry as Entry
    from .sample_log import SampleLog as SampleLog
    from .sample_log import read_log as read_log
    from .sampler import ElasticDistributedSampler as ElasticDistributedSampler
    from .share import Share as Share
    from .share import Tail as Tail
    from .simulation import GlobalShare as GlobalShare
    from .simulation import Report as Report
    from .simulation import Round as Round
    from .simulation import Stage as Stage
    from .simulation import simulate as simulate
    from .split import Part as Part
    from .state import State as State
    from .tracking import Tracked as Tracked
    from .whereabouts import WorldLike as WorldLike
    from .world import Nearness as Nearness
    from .world import World as World

__version__: str

# No module may have the name of something in it that is public: it would hide that.
_NAMES = {
    "auditing": "Audit EpochAudit Findings audit",
    "batch_sampler": "ElasticBatchSampler",
    "batches": "Batches Batching",
    "errors": "ElasticSamplerError ElasticSamplerWarning IssuedNotTrainedWarning "
    "LoaderMismatchError NoAnswerError ProviderError RepeatedEpochWarning ResumeWarning StateError "
    "UnequalSharesWarning UnsplitShareWarning WorldChangedWarning WorldConflictError WorldError "
    "WorldLostError WorldRefusedError",
    "hookspecs": "hookimpl",
    "iteration": "Iteration",
    "location": "Location",
    "order": "EpochOrder FullOrder LazyOrder",
    "permutation": "Permutation",
    "picture": "Band Mark",
    "plugins": "register unregister",
    "sample_log": "Entry SampleLog read_log",
    "sampler": "ElasticDistributedSampler",
    "share": "Share Tail",
    "simulation": "GlobalShare Report Round Stage simulate",
    "split": "Part",
    "state": "State",
    "tracking": "Tracked",
    "whereabouts": "WorldLike",
    "world": "Nearness World",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        from importlib.metadata import version

        return version("elastic-sampler")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
