"""Issued is not trained: count what the training loop received, and check the wiring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .batches import Batching
from .checks import integer
from .errors import LoaderMismatchError
from .split import draws_indices

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

    iteration: Iteration[Any] | None = None


class Tracked(Generic[Batch]):
    """A loader whose delivered batches are counted as trained. Made by `track`.

    Frameworks that run the loop find on it what they look for on a loader: `len`, `sampler`,
    `set_epoch`, and a state that they keep in their checkpoints.

    Attributes:
        sampler: The sampler that is tracked.
    """

    def __init__(
        self,
        sampler: ElasticDistributedSampler,
        loader: Iterable[Batch],
        batches: int | Batching | None,
        *,
        progress: bool,
        whole_epoch: bool = False,
    ) -> None:
        self.sampler, self._loader, self._whole_epoch = sampler, loader, whole_epoch
        self._bar = _tqdm() if progress else None
        self._batching = batches if isinstance(batches, Batching) else None
        # Of an iteration over batches each delivered one is an item; else so many indices are.
        whole = batches is None and getattr(loader, "batch_sampler", None) is sampler
        if isinstance(batches, Batching) or whole:  # an order of whole batches: places, one by one
            self._size = 1
        else:
            self._size = _batch_size_of(loader, batches)

    def __len__(self) -> int:
        """How many batches the loader says it has, or the whole epoch has (`whole_epoch`)."""
        if self._whole_epoch:
            return self.sampler._length(self._batching, whole=True)
        return len(cast(Sized, self._loader))

    def set_epoch(self, epoch: int) -> None:
        """As `ElasticDistributedSampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As `ElasticDistributedSampler.state_dict`: what was trained."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `ElasticDistributedSampler.load_state_dict`."""
        self.sampler.load_state_dict(state)

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the loader's batches; each counts as soon as it is handed out.

        Raises:
            LoaderMismatchError: The batches are not those of this sampler's share.
        """
        batches = self._batches()
        if self._bar is None:
            return batches
        whole, parts = self._expected(self.sampler._length(self._batching))
        total = whole if getattr(self._loader, "drop_last", False) is True else parts
        bar: Iterator[Batch] = iter(self._bar(batches, total=total))
        return bar

    def _batches(self) -> Iterator[Batch]:
        tracked, delivered = Pass(), 0
        with self.sampler._tracking(tracked) as advanced:
            for batch in self._loader:
                iteration = tracked.iteration or advanced() or self._shared()
                tracked.iteration = iteration
                if iteration is None:
                    raise LoaderMismatchError(
                        "the first batch did not come from this sampler: no iterator of it has "
                        "advanced. The loader has another sampler, or was begun before track() "
                        "(pass the loader itself, not an iterator), or reads a share() by itself "
                        f"and was not given a new one for this pass. {_CURE}"
                    )
                if iteration.plan.batching != self._batching:
                    raise LoaderMismatchError(
                        "the loader draws indices where the batch sampler is tracked, or the other "
                        "way round: track a DataLoader(batch_sampler=batches) with "
                        "batches.track(loader), a DataLoader(sampler=sampler) with "
                        "sampler.track(loader)"
                    )
                self.sampler._tracking_done(tracked)
                delivered += 1
                total = len(iteration.plan.items)
                if iteration.trained == total:
                    raise LoaderMismatchError(self._counts(delivered, total, "or more"))
                iteration.trained = min((iteration.trained or 0) + self._size, total)
                yield batch
            tracked.iteration = tracked.iteration or self._shared()  # one of no batches
        self._end(tracked.iteration, delivered)

    def _shared(self) -> Iteration[Any] | None:
        """What share() gave out, where the loader reads that by itself: no iterator advances."""
        return None if draws_indices(self._loader) else self.sampler._begin_shared()

    def _expected(self, total: int) -> tuple[int, int]:
        """How many batches so many items are, without and with a last one that is not whole."""
        return total // self._size, -(-total // self._size)

    def _end(self, iteration: Iteration[Any] | None, delivered: int) -> None:
        if iteration is None:
            total = self.sampler._length(self._batching)
        else:
            total = len(iteration.plan.items)
        whole, parts = self._expected(total)
        drops = getattr(self._loader, "drop_last", None)
        expected = {whole} if drops is True else {parts} if drops is False else {whole, parts}
        if delivered not in expected or (total and iteration is None):
            raise LoaderMismatchError(self._counts(delivered, total, ""))
        if iteration is not None:
            iteration.ended = True
            self.sampler._passed(iteration)

    def _counts(self, delivered: int, total: int, more: str) -> str:
        share = "batches" if self._batching else f"indices, {self._size} a batch"
        return (
            f"the loader delivered {delivered} {more}".rstrip()
            + f" batches, but this rank's share is {total} {share}: the data was divided once "
            f"more, or not by this sampler. {_CURE}"
        )


def _tqdm() -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise ImportError(
            "progress=True needs tqdm: pip install 'elastic-sampler[progress]'"
        ) from None
    return tqdm


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
        f"track() cannot tell how many indices a batch of {type(loader).__name__} has: pass "
        f"batch_size= (or, for an ElasticBatchSampler, call batches.track(loader))"
    )
