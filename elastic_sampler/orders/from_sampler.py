"""Any sampler that can be iterated anew each epoch, dealt like every other order.

torch's samplers give one list of indices for the whole job and know nothing of ranks. Here such a
list is the order of the epoch: each rank iterates over the sampler, all get the same, and each
takes its places of it.

They get the same because whatever a sampler may draw from is seeded with (seed, epoch) first: its
own generators, and the global ones of Python, NumPy and torch, whose states are put back
afterwards. What cannot be seeded so shows in the state: its field `order` has a digest of the
epoch's indices, which ranks compare and a resumed job must meet again.
"""

from __future__ import annotations

import random
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, SupportsIndex

from ..checks import integer
from ..columns import digest
from ..words import seed_of
from .listed import Listed, ListedBatches

_KEPT = 2
"""Epochs whose lists are kept: the one under way and the next."""


class FromSampler:
    """Each epoch is what a sampler gives when it is iterated over, once.

    If the sampler has `set_epoch`, it is called first; so are those of the samplers inside of it (a
    `BatchSampler` has one as `sampler`). Torch generators of theirs (`generator`), and the global
    generators of Python, NumPy and torch, are seeded with (seed, epoch); the global ones go on
    afterwards where they were.

    A sampler that gives batches, lists of indices, is dealt batch by batch: a place of the order is
    a whole batch, and a rank iterates over lists of indices (`batch_sampler=` of a DataLoader).

    Args:
        sampler: A re-iterable of indices or of batches of them, for the whole job: not one that
            deals to ranks by itself, such as torch's `DistributedSampler`.
        seed: Any integer, the same on all ranks.

    Costs: O(n) by nature. Each epoch is iterated over on every rank, and kept, 8 bytes an index.

    Raises:
        TypeError: The sampler cannot be iterated over, or only once.
        ValueError: The sampler deals to several ranks by itself.

    Examples:
        >>> order = FromSampler([[0, 1, 2], [3, 4]])  # a list will do
        >>> order(0)[1], len(order(0))
        ([3, 4], 2)
    """

    def __init__(
        self, sampler: Iterable[SupportsIndex] | Iterable[Sequence[SupportsIndex]], *, seed: int = 0
    ) -> None:
        if not isinstance(sampler, Iterable):
            raise TypeError(f"sampler must be an iterable of indices or batches, got {sampler!r}")
        if isinstance(sampler, Iterator):
            raise TypeError(
                f"sampler must give its indices anew in each epoch, got an iterator, which does so "
                f"once: {sampler!r}"
            )
        ranks = getattr(sampler, "num_replicas", 1)
        if ranks != 1:
            raise ValueError(
                f"sampler must be one for the whole job, got {type(sampler).__name__} for "
                f"{ranks} ranks: its parts would be divided again"
            )
        self.sampler, self.seed = sampler, integer("seed", seed)
        self._known: dict[int, Listed | ListedBatches] = {}

    def __call__(self, epoch: int) -> Listed | ListedBatches:
        """The order of one epoch. Iterates over the sampler, the first time."""
        if epoch not in self._known:
            with self._seeded(epoch):
                found = _listed(self.sampler)
            while len(self._known) >= _KEPT:
                del self._known[min(self._known)]
            self._known[epoch] = found
        return self._known[epoch]

    def fingerprint(self, epoch: int) -> str:
        """What a state says of this order: the sampler's type, and a digest of the epoch."""
        order, kind = self(epoch), type(self.sampler)
        columns = (
            (order.column, order.ends) if isinstance(order, ListedBatches) else (order.column,)
        )
        return f"sampler/1 {kind.__module__}.{kind.__qualname__} {digest(*columns)}"

    @contextmanager
    def _seeded(self, epoch: int) -> Iterator[None]:
        seed = seed_of(f"elastic-sampler sampler/1 {self.seed:x} {epoch:x}")
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        for sampler in _inside(self.sampler):
            if callable(set_epoch := getattr(sampler, "set_epoch", None)):
                set_epoch(epoch)
            generator = getattr(sampler, "generator", None)
            if torch is not None and isinstance(generator, torch.Generator):
                generator.manual_seed(seed % 2**63)
        with ExitStack() as afterwards:
            afterwards.callback(random.setstate, random.getstate())
            random.seed(seed)
            if numpy is not None:
                afterwards.callback(numpy.random.set_state, numpy.random.get_state())
                numpy.random.seed(seed % 2**32)
            if torch is not None:
                afterwards.callback(torch.set_rng_state, torch.get_rng_state())
                torch.default_generator.manual_seed(seed % 2**63)
            yield

    def __getstate__(self) -> dict[str, Any]:
        # A list is made again where it is needed.
        return {**self.__dict__, "_known": {}}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.sampler!r}, seed={self.seed})"


def _inside(sampler: Any) -> Iterator[Any]:
    """A sampler, the one that it takes its indices from, and so on."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "sampler", None)


def _listed(sampler: Iterable[Any]) -> Listed | ListedBatches:
    """What a sampler gives, written out.

    Raises:
        TypeError: It gives something that is no index and no batch of them, or both kinds.
        ValueError: An index is negative.
    """
    column, ends, items = array("q"), array("q", [0]), 0
    for item in sampler:
        items += 1
        if isinstance(item, Iterable) and getattr(item, "ndim", 1) != 0:  # 0: a number
            column.extend(map(_index, item))
            ends.append(len(column))
        else:
            column.append(_index(item))
    if len(ends) == 1:
        return Listed(column)
    if len(ends) <= items:
        raise TypeError("a sampler must give indices or batches of them, got some of each")
    return ListedBatches(column, ends)


def _index(value: SupportsIndex) -> int:
    return integer("what a sampler gives", value, 0)
