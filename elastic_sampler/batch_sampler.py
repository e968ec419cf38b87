"""Global batches that stay the same at every world size."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from .batches import Batches, Batching
from .errors import UnequalSharesWarning
from .iteration import Iteration
from .location import Location
from .sampler import ElasticDistributedSampler
from .tracking import Tracked

Batch = TypeVar("Batch")


class ElasticBatchSampler:
    """Yields this rank's part of each global batch: `batch_sampler=` of a DataLoader.

    For a fixed global batch, step k consumes the same samples for every world size (wrap-around
    padding apart); the global batch size need not be divisible by the world size: the parts of the
    ranks then differ by one, and `loss_scale` makes averaged gradients right. It is a view of the
    sampler: state, epoch and tail live there.

    Args:
        sampler: Whose epochs are dealt.
        global_batch_size: Samples consumed by all ranks together in one step, at least 1 and, when
            an iteration begins, at least the world size.
        micro_batch_size: With it, each rank's part comes in micro-batches of at most so many
            samples, equally many on every rank, for gradient accumulation.

    Raises:
        TypeError, ValueError: An argument is wrong; it is named.

    Examples:
        >>> from elastic_sampler import World
        >>> sampler = ElasticDistributedSampler(10, shuffle=False, world=World(1, 3))
        >>> batches = ElasticBatchSampler(sampler, 6)
        >>> list(batches), [batches.padding(k) for k in range(len(batches))]
        ([[1, 4], [7, 0]], [0, 1])
    """

    def __init__(
        self,
        sampler: ElasticDistributedSampler,
        global_batch_size: int,
        *,
        micro_batch_size: int | None = None,
    ) -> None:
        if not isinstance(sampler, ElasticDistributedSampler):
            raise TypeError(f"sampler must be an ElasticDistributedSampler, got {sampler!r}")
        self.sampler = sampler
        self.batching = Batching(global_batch_size, micro_batch_size)
        self._warned: set[tuple[int, int]] = set()

    def __len__(self) -> int:
        """How many batches (or micro-batches) the next iteration yields on this rank."""
        return self.sampler._length(self.batching)

    def __iter__(self) -> Iteration[list[int]]:
        """Iterate from the resume point, with the world of this moment."""
        iteration: Iteration[list[int]] = self.sampler._iterate(self.batching)
        size, width = self.batching.global_batch_size, iteration.plan.world.size
        if size % width and (size, width) not in self._warned:
            self._warned.add((size, width))
            warnings.warn(
                f"a global batch of {size} is not divisible by {width} ranks: their parts differ "
                f"by one, and averaging gradients over ranks weighs them wrongly unless each loss "
                f"is multiplied with loss_scale(k)",
                UnequalSharesWarning,
                stacklevel=2,
            )
        return iteration

    def __getitem__(self, item: int) -> list[int]:
        """This rank's part of the batch of step `item` of what is left from the resume point."""
        return self.share()[item]

    def share(self) -> Batches:
        """This rank's batches of what is left from the resume point: lazy, and a value."""
        items: Batches = self.sampler._shared(self.batching)
        return items

    def locate(self, sample: int, epoch: int | None = None) -> list[Location]:
        """As `ElasticDistributedSampler.locate`; the steps are global batches."""
        return self.sampler._located(sample, epoch, self.batching)

    @property
    def _pass(self) -> Batches:
        """The batches of the pass under way, also one just finished; else of the next."""
        latest = self.sampler._latest
        if latest is not None and latest.plan.batching == self.batching:
            items: Batches = latest.plan.items
            return items
        return self.share()

    def loss_scale(self, item: int) -> float:
        """What to multiply the mean loss of batch (or micro-batch) `item` of this pass with.

        `len(batch) * W / samples in its global batch`: see `Batches.loss_scale`. Until another
        pass begins or an epoch is set, "this pass" is the most recent one.
        """
        return self._pass.loss_scale(item)

    def padding(self, item: int) -> int:
        """How many of the last indices of batch `item` of this pass are wrap-around repeats."""
        return self._pass.padding(item)

    def ends_step(self, item: int) -> bool:
        """Whether micro-batch `item` of this pass completes a step."""
        return self._pass.ends_step(item)

    def micro_batches(self, item: int) -> int:
        """How many micro-batches the step of micro-batch `item` of this pass has on each rank."""
        return self._pass.micro_batches(item)

    # A view of the sampler.

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins in."""
        return self.sampler.epoch

    def set_epoch(self, epoch: int) -> None:
        """As `ElasticDistributedSampler.set_epoch`."""
        self.sampler.set_epoch(epoch)

    def epochs(self, stop: int) -> Iterator[int]:
        """As `ElasticDistributedSampler.epochs`."""
        return self.sampler.epochs(stop)

    def state_dict(self) -> dict[str, Any]:
        """As `ElasticDistributedSampler.state_dict`; the position is that of whole steps."""
        return self.sampler.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As `ElasticDistributedSampler.load_state_dict`; any state of the sampler will do."""
        self.sampler.load_state_dict(state)

    def track(
        self, loader: Iterable[Batch], *, progress: bool = False, whole_epoch: bool = False
    ) -> Tracked[Batch]:
        """As `ElasticDistributedSampler.track`, for a loader that delivers these batches.

        Args:
            loader: What delivers the batches, prefetching or not.
            progress: Whether to show a bar of the batches that are left, with tqdm.
            whole_epoch: Whether `len()` of what is returned is that of the whole epoch, also after
                a resume, as frameworks that run the loop expect it of a loader (Lightning, the
                Hugging Face Trainer). Iterating gives what is left all the same.
        """
        return Tracked(
            self.sampler, loader, self.batching, progress=progress, whole_epoch=whole_epoch
        )

    def advance(self, count: int = 1) -> None:
        """Say that `count` more steps (or micro-batches) were trained: the manual `track`."""
        self.sampler._advance(count, self.batching)

    def __repr__(self) -> str:
        sizes = f"global_batch_size={self.batching.global_batch_size}"
        if self.batching.micro_batch_size is not None:
            sizes += f", micro_batch_size={self.batching.micro_batch_size}"
        return f"{type(self).__name__}({self.sampler!r}, {sizes})"
