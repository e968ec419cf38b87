"""Which part does this process load? A rank's share, split further between processes.

Part i of k holds the batches i, i + k, … of a share. Delivered in turn, as loaders do that have k
processes, they are the batches of the unsplit share in their order: how many processes load changes
nothing in what a rank is given, nor in what its position means.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, overload

from .checks import integer

Item = TypeVar("Item")


@dataclass(frozen=True)
class Part(Sequence[Item]):
    """One part of a share: a lazy sequence, and a value. Made by `split`.

    `len` and indexing cost O(1), a slice what it holds.

    Attributes:
        whole: What is split, a lazy sequence of indices or of batches.
        begins: Where in it the batches of this part begin: a range of a range.
        batch_size: Items of a batch; the last one of `whole` may have less.
    """

    whole: Sequence[Item]
    begins: range
    batch_size: int

    def __len__(self) -> int:
        """How many items there are."""
        if not self.begins:
            return 0
        last = min(self.batch_size, len(self.whole) - self.begins[-1])
        return (len(self.begins) - 1) * self.batch_size + last

    @overload
    def __getitem__(self, item: int) -> Item: ...
    @overload
    def __getitem__(self, item: slice) -> list[Item]: ...
    def __getitem__(self, item: int | slice) -> Item | list[Item]:
        """One item, or a list of them."""
        if isinstance(item, slice):
            return [self[i] for i in range(len(self))[item]]
        try:
            batch, rest = divmod(range(len(self))[item], self.batch_size)
        except IndexError:
            raise IndexError(f"part index must be in [0, {len(self)}), got {item}") from None
        return self.whole[self.begins[batch] + rest]

    def __iter__(self) -> Iterator[Item]:
        """Iterate over the items, a batch at a time."""
        for begin in self.begins:
            yield from self.whole[begin : begin + self.batch_size]


def split(whole: Sequence[Item], part: int, parts: int, batch_size: int = 1) -> Part[Item]:
    """The batches `part`, `part + parts`, … of a sequence.

    Raises:
        TypeError: An argument is not an integer; it is named.
        ValueError: `parts` or `batch_size` is less than 1, or `part` is outside `[0, parts)`.
    """
    parts, batch_size = integer("parts", parts, 1), integer("batch_size", batch_size, 1)
    part = integer("part", part)
    if part not in range(parts):
        raise ValueError(f"part must be in [0, {parts}), got {part}")
    return Part(whole, range(part * batch_size, len(whole), parts * batch_size), batch_size)


def loader_workers() -> int:
    """How many workers the torch loader has that this process is a worker of, 0 elsewhere."""
    data = sys.modules.get("torch.utils.data")
    info = None if data is None else data.get_worker_info()
    return 0 if info is None else int(info.num_workers)


def draws_indices(loader: object) -> bool:
    """Whether a loader is torch's over a map-style data set: then it has a sampler, in here."""
    data = sys.modules.get("torch.utils.data")
    if data is None or not isinstance(loader, data.DataLoader):
        return False
    return not isinstance(loader.dataset, data.IterableDataset)
