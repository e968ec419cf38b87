"""Which part of each global batch is mine?

Step k of a pass takes the positions [start + k*G, start + (k+1)*G) of the epoch's order, whatever
the world size; seat s of W ranks takes those at s, s + W, … of them: a `range` again. Only the last
step may be smaller (or, rounded up, larger): that is what the tail says.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import overload

from .checks import integer
from .order import read
from .share import LARGEST_CHUNK, Tail
from .split import Part, split


@dataclass(frozen=True)
class Batching:
    """How samples become batches.

    Attributes:
        global_batch_size: Samples consumed by all ranks together in one step, at least 1.
        micro_batch_size: Samples of one rank at a time, at least 1, or None for its whole part.
    """

    global_batch_size: int
    micro_batch_size: int | None = None

    def __post_init__(self) -> None:
        size = integer("global_batch_size", self.global_batch_size, 1)
        object.__setattr__(self, "global_batch_size", size)
        if self.micro_batch_size is not None:
            micro = integer("micro_batch_size", self.micro_batch_size, 1)
            object.__setattr__(self, "micro_batch_size", micro)


@dataclass(frozen=True)
class Batches(Sequence[list[int]]):
    """One rank's parts of the global batches of a pass: a lazy `Sequence[list[int]]`, and a value.

    Item i is this rank's part of the global batch of step i; with micro-batches the items are one
    flat stream of them, the same number on every rank in each step. None is empty. `len` costs
    O(1), an item what it holds.

    Attributes:
        order: The epoch's order.
        start: The position that the pass begins at.
        world_size: Number of ranks W, at most the global batch size.
        seat: This rank's seat, `0 <= seat < world_size`.
        tail: What happens to the last, partial global batch.
        batching: Sizes of global and micro-batches.

    Raises:
        ValueError: The global batch size is less than the world size, or the micro-batch size is 1
            where the parts of a global batch differ by one: then the ranks cannot take the same
            number of micro-batches.
    """

    order: Sequence[int]
    start: int
    world_size: int
    seat: int
    tail: Tail
    batching: Batching

    def __post_init__(self) -> None:
        size = self.batching.global_batch_size
        if size < self.world_size:
            raise ValueError(
                f"global_batch_size must be at least the world size, so that each rank has a part "
                f"of every batch, got {size} for {self.world_size} ranks"
            )
        uneven = [s for s in self._sizes if s > self.world_size and s % self.world_size]
        if self.batching.micro_batch_size == 1 and uneven:
            raise ValueError(
                f"micro_batch_size must be at least 2 where a global batch is not divisible by the "
                f"world size (some ranks have one sample more, and all must take the same number "
                f"of micro-batches), got 1 for a batch of {uneven[0]} on {self.world_size} ranks"
            )

    # Steps: k is a step of all ranks.

    @property
    def _whole(self) -> int:
        """How many whole global batches are left."""
        return max(len(self.order) - self.start, 0) // self.batching.global_batch_size

    @property
    def _last(self) -> int:
        """How many places the last, partial global batch has; 0 without one."""
        size, width = self.batching.global_batch_size, self.world_size
        left = max(len(self.order) - self.start, 0) % size
        return {
            "wrap": -(-left // width) * width,
            "fill": size if left else 0,
            "drop": 0,
            "uneven": left,
        }[self.tail]

    @property
    def stop(self) -> int:
        """The place at which the steps of all ranks together end."""
        return self.start + self._whole * self.batching.global_batch_size + self._last

    @property
    def _sizes(self) -> list[int]:
        """The sizes of global batches that occur."""
        return [self.batching.global_batch_size] * (self._whole > 0) + [self._last]

    @property
    def steps(self) -> int:
        """How many steps this rank takes."""
        return self._whole + (self.seat < self._last)

    def _size(self, step: int) -> int:
        """How many places the global batch of a step has."""
        return self.batching.global_batch_size if step < self._whole else self._last

    def _parts(self, step: int) -> int:
        """How many micro-batches each rank takes in a step."""
        micro = self.batching.micro_batch_size
        largest = -(-self._size(step) // self.world_size)
        return 1 if micro is None else max(1, -(-largest // micro))

    # Items: i is a micro-batch of this rank, or its part of a whole step.

    def __len__(self) -> int:
        """How many items there are: steps, or micro-batches of all steps."""
        last = self._parts(self._whole) if self.steps > self._whole else 0
        return self._whole * self._parts(0) + last

    def _step_of(self, item: int) -> tuple[int, int]:
        """The step of an item, and which of its parts the item is."""
        step = min(item // self._parts(0), self._whole)
        return step, item - step * self._parts(0)

    def places(self, item: int) -> range:
        """The positions of one item in the epoch's order; those past its end wrap around."""
        step, part = self._step_of(item)
        first = self.start + step * self.batching.global_batch_size
        mine = range(first + self.seat, first + self._size(step), self.world_size)
        parts = self._parts(step)
        return mine[part * len(mine) // parts : (part + 1) * len(mine) // parts]

    def _checked(self, item: int) -> int:
        try:
            return range(len(self))[operator.index(item)]
        except IndexError:
            raise IndexError(f"batch index must be in [0, {len(self)}), got {item}") from None

    @overload
    def __getitem__(self, item: int) -> list[int]: ...
    @overload
    def __getitem__(self, item: slice) -> list[list[int]]: ...
    def __getitem__(self, item: int | slice) -> list[int] | list[list[int]]:
        """The sample indices of one item, or of a slice of items. Costs what it holds."""
        if isinstance(item, slice):
            return [self[i] for i in range(len(self))[item]]
        return read(self.order, self.places(self._checked(item)))

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over the items."""
        return chain.from_iterable(self.chunks())

    def chunks(self) -> Iterator[list[list[int]]]:
        """The items in lists that start small and grow."""
        largest = max(1, LARGEST_CHUNK * self.world_size // self.batching.global_batch_size)
        done, size = 0, 1
        while done < len(self):
            yield self._chunk(range(done, min(done + size, len(self))))
            done, size = done + size, min(2 * size, largest)

    def _chunk(self, items: range) -> list[list[int]]:
        """Some items in a row: of one range of places where steps join without a seam."""
        places = [self.places(item) for item in items]
        if self.batching.global_batch_size % self.world_size:
            return [read(self.order, part) for part in places]
        joined = read(self.order, range(places[0].start, places[-1].stop, self.world_size))
        ends = list(accumulate(map(len, places)))
        return [joined[end - len(part) : end] for end, part in zip(ends, places, strict=True)]

    def split(self, part: int, parts: int) -> Part[list[int]]:
        """The batches that one of several processes loads: `part`, `part + parts`, …, lazily.

        Raises:
            TypeError: An argument is not an integer; it is named.
            ValueError: `parts` is less than 1, or `part` is outside `[0, parts)`.
        """
        return split(self, part, parts)

    def ends_step(self, item: int) -> bool:
        """Whether an item is the last of its step: the time for the optimizer."""
        step, part = self._step_of(self._checked(item))
        return part + 1 == self._parts(step)

    def micro_batches(self, item: int) -> int:
        """How many items, on every rank, the step of this item has."""
        return self._parts(self._step_of(self._checked(item))[0])

    def padding(self, item: int) -> int:
        """How many of the last indices of an item are wrap-around repeats."""
        places = self.places(self._checked(item))
        return len(places) - len(
            range(places.start, min(places.stop, len(self.order)), places.step)
        )

    def loss_scale(self, item: int) -> float:
        """What to multiply the mean loss of an item with, so that averaged gradients are right.

        It is `len(item) * W / samples of its global batch`: then the mean over ranks of the summed
        gradients of a step is the gradient of the mean loss over the global batch, as on one
        process, also where the parts of the ranks are unequal.
        """
        item = self._checked(item)
        return len(self.places(item)) * self.world_size / self._size(self._step_of(item)[0])

    def position_after(self, count: int) -> int:
        """The position of the job when each rank, in lock-step, has taken `count` items.

        A step that is not complete does not count: it is done again after a resume.
        """
        step = self.steps if count >= len(self) else self._step_of(count)[0]
        return min(self.start + step * self.batching.global_batch_size, len(self.order))
