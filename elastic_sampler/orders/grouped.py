"""Batches of one kind: of similar length, of one shape, of one class.

A place of the order is a whole batch, all of one group. Each epoch shuffles the members of every
group, cuts them into batches, and shuffles the batches of all groups. Nothing of that is written
out: batch k of a group is the stretch `[k * size, (k + 1) * size)` of the group's permutation, so
any batch costs what it holds.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, SupportsIndex

from ..checks import integer
from ..columns import digest, integers
from ..order import LazyOrder
from ..permutation import Permutation
from ..words import seed_of

_KEPT = 1024
"""Groups whose shuffle is kept."""


class Grouped:
    """Each epoch is a list of batches, each of one group: the same list at every world size.

    A rank iterates over lists of indices: `batch_sampler=` of a DataLoader. The state counts
    batches. Without `drop_last` every sample comes exactly once in an epoch, and the last batch of
    a group may be smaller.

    Args:
        groups: The group of each sample: anything that can be a key of a dict.
        batch_size: Samples in a batch, at least 1; or a dict with that of each group.
        seed: Any integer, the same on all ranks.
        shuffle: Whether members of groups, and batches, are shuffled in each epoch; else both are
            as the data lies, the groups in the order in which they first appear.
        drop_last: Whether the last, partial batch of each group is left out.

    Costs: 8 bytes a sample, grouped once in O(n). A batch costs what it holds, a resume nothing.

    Raises:
        TypeError, ValueError: An argument is wrong (it is named), or a group has no batch size.

    Examples:
        >>> order = Grouped(["wide", "tall", "wide", "wide", "tall"], batch_size=2, seed=0)
        >>> list(order(0))
        [[0], [2, 3], [4, 1]]
    """

    def __init__(
        self,
        groups: Iterable[Hashable],
        batch_size: int | Mapping[Any, int],
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> None:
        for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
            if not isinstance(value, bool):
                raise TypeError(f"{name} must be True or False, got {value!r}")
        members: dict[Hashable, array[int]] = {}
        for sample, group in enumerate(groups):
            if group not in members:
                members[group] = array("q")
            members[group].append(sample)
        if isinstance(batch_size, Mapping):
            if missing := [group for group in members if group not in batch_size]:
                raise ValueError(f"batch_size must have one for each group, got none of {missing}")
            sizes = {group: batch_size[group] for group in members}
        else:
            sizes = dict.fromkeys(members, integer("batch_size", batch_size, 1))
        sizes = {group: integer(f"batch_size[{group!r}]", s, 1) for group, s in sizes.items()}
        self.seed = integer("seed", seed)
        self._kept = Groups(
            column=array("q", b"".join(part.tobytes() for part in members.values())),
            begins=array("q", accumulate(map(len, members.values()), initial=0)),
            sizes=array("q", sizes.values()),
            shuffle=shuffle,
            drop_last=drop_last,
        )

    @classmethod
    def by_length(
        cls,
        lengths: Iterable[SupportsIndex],
        *,
        batch_size: int | None = None,
        token_budget: int | None = None,
        buckets: int = 16,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = False,
    ) -> Grouped:
        """Batches of similar length, so that little of a batch is padding.

        The samples are put into buckets, each about as many, by length. A batch is of one bucket.
        With a token budget, the batches of a bucket have `token_budget // longest` samples, the
        longest being that of the bucket: padded to its longest sample, no batch has more tokens.

        Args:
            lengths: The length of each sample, at least 0.
            batch_size: Samples in a batch. Either this,
            token_budget: or tokens in a batch, padding included: at least the longest sample.
            buckets: At most how many, at least 1. More buckets pad less, and mix less.
            seed: As for the class.
            shuffle: As for the class.
            drop_last: As for the class.

        Raises:
            TypeError, ValueError: An argument is wrong (it is named), or a sample is longer than
                the token budget.

        Examples:
            >>> lengths = [5, 100, 7, 90, 6, 8]
            >>> sorted(map(sorted, Grouped.by_length(lengths, token_budget=200, buckets=2)(0)))
            [[0, 2, 4], [1, 5], [3]]
        """
        if (batch_size is None) == (token_budget is None):
            raise ValueError(
                f"give either batch_size or token_budget, got {batch_size} and {token_budget}"
            )
        column, buckets = integers("lengths", lengths), integer("buckets", buckets, 1)
        ascending = sorted(column)
        n = len(ascending)
        # The longest length of each bucket; equal lengths are in one.
        longest = sorted(
            {ascending[-(-(k + 1) * n // buckets) - 1] for k in range(buckets)} if n else ()
        )
        if token_budget is None:
            sizes = dict.fromkeys(range(len(longest)), batch_size or 0)
        else:
            budget = integer("token_budget", token_budget, 1)
            if longest and longest[-1] > budget:
                raise ValueError(
                    f"token_budget must be at least the longest sample, got {budget} for "
                    f"{longest[-1]} of sample {column.index(longest[-1])}"
                )
            sizes = {k: budget // max(length, 1) for k, length in enumerate(longest)}
        groups = (bisect_left(longest, length) for length in column)
        return cls(groups, sizes, seed=seed, shuffle=shuffle, drop_last=drop_last)

    def __call__(self, epoch: int) -> GroupedBatches:
        """The batches of one epoch."""
        return GroupedBatches(self._kept, self.seed, integer("epoch", epoch, 0))

    @property
    def fingerprint(self) -> str:
        """What a state says of this order: its seed, and a digest of groups and batch sizes."""
        return f"grouped/1 seed={self.seed} groups={self._kept.digest}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kept!r}, seed={self.seed})"


@dataclass(frozen=True, eq=False)
class Groups:
    """Samples by group, and how their groups are cut into batches. Equal if their digests are.

    Attributes:
        column: The samples, one group after the other.
        begins: Where in the column each group begins, and where the last one ends.
        sizes: Samples in a batch of each group.
        shuffle: Whether they are shuffled.
        drop_last: Whether partial batches are left out.
    """

    column: array[int]
    begins: array[int]
    sizes: array[int]
    shuffle: bool
    drop_last: bool

    @cached_property
    def digest(self) -> str:
        """12 hexadecimal digits."""
        flags = range(self.shuffle, 2 + self.drop_last)
        return digest(self.column, self.begins, self.sizes, flags)

    @cached_property
    def batches(self) -> list[int]:
        """How many batches there are in the groups before each, and in all."""
        counts = (
            (end - begin) // size if self.drop_last else -(-(end - begin) // size)
            for (begin, end), size in zip(pairwise(self.begins), self.sizes, strict=True)
        )
        return list(accumulate(counts, initial=0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"{len(self.column)} samples in {len(self.sizes)} groups"


@dataclass(frozen=True)
class GroupedBatches(LazyOrder[list[int]]):
    """One epoch of `Grouped`: its places are whole batches.

    Attributes:
        groups: What is in the batches.
        seed: The seed.
        epoch: The epoch.
    """

    groups: Groups
    seed: int
    epoch: int

    def __len__(self) -> int:
        """How many batches there are."""
        return self.groups.batches[-1]

    @cached_property
    def _order(self) -> Permutation | range:
        """Which batch is at a position."""
        if not self.groups.shuffle:
            return range(len(self))
        seed = seed_of(f"elastic-sampler grouped/1 {self.seed:x}")
        return Permutation(len(self), seed, self.epoch)

    @cached_property
    def _shuffles(self) -> dict[int, Permutation | range]:
        return {}

    def _members(self, group: int) -> Permutation | range:
        """Which member of a group comes when."""
        known = self._shuffles
        if group not in known:
            while len(known) >= _KEPT:
                del known[next(iter(known))]
            count = self.groups.begins[group + 1] - self.groups.begins[group]
            seed = seed_of(f"elastic-sampler grouped/1 {self.seed:x} {group:x}")
            shuffled = self.groups.shuffle
            known[group] = Permutation(count, seed, self.epoch) if shuffled else range(count)
        return known[group]

    def take(self, places: range) -> list[list[int]]:
        """The batches at `places`. Costs what they hold."""
        return [
            self._batch(number) for number in self._order[places.start : places.stop : places.step]
        ]

    def _batch(self, number: int) -> list[int]:
        groups = self.groups
        group = bisect_right(groups.batches, number) - 1
        size, begin = groups.sizes[group], groups.begins[group]
        first = (number - groups.batches[group]) * size
        return [groups.column[begin + m] for m in self._members(group)[first : first + size]]

    def find(self, sample: int) -> list[int]:
        """The position of the batch with a sample, if there is one. Costs O(samples)."""
        groups = self.groups
        try:
            place = groups.column.index(sample)
        except (ValueError, OverflowError):
            return []
        group = bisect_right(groups.begins, place) - 1
        where = self._members(group).index(place - groups.begins[group])
        number = groups.batches[group] + where // groups.sizes[group]
        return [self._order.index(number)] if number < groups.batches[group + 1] else []

    def __getstate__(self) -> dict[str, Any]:
        # What was computed is cheap to make again.
        return {"groups": self.groups, "seed": self.seed, "epoch": self.epoch}
