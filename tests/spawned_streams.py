"""Streams that are read in spawned processes: a child can import this module, but not a test."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from elastic_sampler import UnsplitShareWarning

BATCH = 4


def worker() -> tuple[int, int]:
    """Which worker this is, of how many: 0 of 1 in the process of the loop."""
    info = get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)


class Stream(IterableDataset[int]):
    """The indices of a share, as samples. The share is new for each pass."""

    share: Any

    def __iter__(self) -> Iterator[int]:
        yield from self.share.split(*worker(), batch_size=BATCH)


class StreamOfBatches(Stream):
    """Whole batches: the loader makes none."""

    def __iter__(self) -> Iterator[Any]:
        yield from map(torch.tensor, self.share.split(*worker()))


class PersistentStream(Stream):
    """A stream whose workers live on: the share lies in memory that they see, too."""

    def __init__(self) -> None:
        self.memory = torch.zeros(4096, dtype=torch.uint8)
        self.memory.share_memory_()  # type: ignore[no-untyped-call]

    def set_share(self, share: Any) -> None:
        pickled = pickle.dumps(share)
        self.memory[: len(pickled)] = torch.tensor(list(pickled), dtype=torch.uint8)

    def __iter__(self) -> Iterator[int]:
        share = pickle.loads(self.memory.numpy().tobytes())
        yield from share.split(*worker(), batch_size=BATCH)


class UnsplitShare(Stream):
    """Each worker yields the whole share."""

    def __iter__(self) -> Iterator[int]:
        yield from self.share


class Unsplit(IterableDataset[str]):
    """Each worker iterates over the whole sampler, and says what it was warned of."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[str]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(2):
                indices = list(self.sampler)
        assert all(warning.category is UnsplitShareWarning for warning in told)
        yield f"{indices} {[str(warning.message) for warning in told]}"
