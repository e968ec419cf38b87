"""What an epoch looks like: callables from epoch to order, one per file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .sequential import Rotation, Sequential
from .shuffled import Shuffled

if TYPE_CHECKING:
    from .block_shuffled import BlockShuffled
    from .concat import Concat
    from .from_sampler import FromSampler
    from .grouped import Grouped
    from .mixture import Draw, Mixture
    from .subset import Subset
    from .weighted import Weighted

__all__ = [
    "BlockShuffled",
    "Concat",
    "Draw",
    "FromSampler",
    "Grouped",
    "Mixture",
    "Rotation",
    "Sequential",
    "Shuffled",
    "Subset",
    "Weighted",
]

_REACHED_LAZILY = {
    "BlockShuffled": "block_shuffled",
    "Concat": "concat",
    "Draw": "mixture",
    "FromSampler": "from_sampler",
    "Grouped": "grouped",
    "Mixture": "mixture",
    "Subset": "subset",
    "Weighted": "weighted",
}


def __getattr__(name: str) -> object:
    if name in _REACHED_LAZILY:
        return getattr(import_module(f".{_REACHED_LAZILY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
