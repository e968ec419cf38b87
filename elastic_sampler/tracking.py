"""Issued is not trained: count what the training loop received, and check the wiring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .checks import integer
from .errors import LoaderMismatchError

if TYPE_CHECKING:
    from .iteration import Iteration
    from .sampler import ElasticDistributedSampler

Batch = TypeVar("Batch")

_CURE = (
    "Frameworks that replace or divide a sampler must be told not to: "
    "use_distributed_sampler=False (Lightning), no prepare() of the loader (Accelerate), "
    "prepare_data_loader(add_dist_sampler=False) (Ray)."
)


class Pass:
    """One tracked pass over a loader, and the iteration of the sampler that feeds it.

    Attributes:
        iteration: What the loader draws from, once it has begun to.
    """

    iteration: Iteration | None = None


class Tracked(Generic[Batch]):
    """A loader whose delivered batches are counted as trained. Made by `track`."""

    def __init__(
        self, sampler: ElasticDistributedSampler, loader: Iterable[Batch], batch_size: int | None
    ) -> None:
        self._sampler, self._loader = sampler, loader
        self._batch_size = _batch_size_of(loader, batch_size)

    def __len__(self) -> int:
        """How many batches the loader says it has."""
        return len(cast(Sized, self._loader))

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the loader's batches; each counts as soon as it is handed out.

        Raises:
            LoaderMismatchError: The batches are not those of this sampler's share.
        """
        tracked, delivered = Pass(), 0
        with self._sampler._tracking(tracked) as advanced:
            for batch in self._loader:
                iteration = tracked.iteration = tracked.iteration or advanced()
                if iteration is None:
                    raise LoaderMismatchError(
                        "the first batch did not come from this sampler: no iterator of it has "
                        "advanced. The loader has another sampler, or was begun before track() "
                        f"(pass the loader itself, not an iterator). {_CURE}"
                    )
                self._sampler._tracking_done(tracked)
                delivered += 1
                total = len(iteration.plan.share)
                if iteration.trained == total:
                    raise LoaderMismatchError(self._counts(delivered, total, "or more"))
                iteration.trained = min((iteration.trained or 0) + self._batch_size, total)
                yield batch
        self._end(tracked.iteration, delivered)

    def _end(self, iteration: Iteration | None, delivered: int) -> None:
        total = len(self._sampler.share() if iteration is None else iteration.plan.share)
        whole, parts = total // self._batch_size, -(-total // self._batch_size)
        drops = getattr(self._loader, "drop_last", None)
        expected = {whole} if drops is True else {parts} if drops is False else {whole, parts}
        if delivered not in expected or (total and iteration is None):
            raise LoaderMismatchError(self._counts(delivered, total, ""))
        if iteration is not None:
            iteration.ended = True
            self._sampler._passed(iteration)

    def _counts(self, delivered: int, total: int, more: str) -> str:
        return (
            f"the loader delivered {delivered} {more}".rstrip()
            + f" batches of {self._batch_size}, but this rank's share is {total} indices: the data "
            f"was divided once more, or not by this sampler. {_CURE}"
        )


def _batch_size_of(loader: Any, batch_size: int | None) -> int:
    if batch_size is not None:
        return integer("batch_size", batch_size, 1)
    batcher = getattr(loader, "batch_sampler", None)
    sizes = [getattr(thing, "batch_size", "unknown") for thing in (loader, batcher)]
    known = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool)]
    if known:
        return integer("loader.batch_size", known[0], 1)
    if sizes[0] is None and batcher is None:
        return 1  # torch's loaders without batching deliver one sample at a time
    raise TypeError(
        f"track() cannot tell how many indices a batch of {type(loader).__name__} has: "
        f"pass batch_size="
    )
