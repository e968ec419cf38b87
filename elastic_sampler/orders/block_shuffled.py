"""A shuffle for data that is read in blocks: row groups, tar files, pages of a memory map.

The blocks are put in random order, so many of them in a row make a window, and the samples of a
window are shuffled among themselves. Whoever reads from a window needs its blocks and no others.

Nothing of the size of the data is built. Position p is in a window, found by arithmetic (or, with
blocks of several sizes, by a search in the windows' beginnings); the window's own `Permutation`
says which of the window's samples it is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, SupportsIndex

from ..arrays import WORTHWHILE, numpy
from ..checks import integer
from ..checks import num_samples as checked_num_samples
from ..columns import digest, integers
from ..order import FullOrder
from ..permutation import Permutation
from ..words import seed_of

_KEPT = 4
"""Windows whose shuffle is kept: reading goes from one to the next."""


class BlockShuffled:
    """Every epoch: blocks in random order, shuffled within windows of some blocks.

    *Locality*: a rank of W that takes 1 000 indices in a row meets at least `window` or `1000 * W /
    block_size` different blocks, whichever is more, and at most the sum of both. *Mixing*: of
    neighbours in the order, one pair in `window` is of one block. For a million samples in blocks
    of 1 000, counted by `tests/test_block_shuffled.py`:

    | order | blocks per 1 000 indices, W = 1 | W = 8 | neighbours of one block, of 1 000 |
    |---|---:|---:|---:|
    | as it lies | 1 | 8 | 999 |
    | `window=1` | 1 | 8 | 999 |
    | `window=8` | 8 | 8 | 125 |
    | `window=64` | 64 | 64 | 16 |
    | `Shuffled` | 632 | 632 | 1 |

    Args:
        num_samples: How many samples there are.
        block_size: Samples in a block, the last one apart; or the size of each block, in the order
            in which they lie.
        seed: Any integer, the same on all ranks.
        window: Blocks that are shuffled together, at least 1.

    Costs: as `Shuffled`, and the set-up of a window's shuffle for each window that is read from
    (2 ms at most). With block sizes also O(blocks), when an epoch begins.

    Raises:
        TypeError, ValueError: An argument is wrong (it is named), or block sizes do not add up to
            `num_samples`.

    Examples:
        >>> list(BlockShuffled(12, block_size=3, window=2)(0))
        [8, 10, 6, 7, 11, 9, 0, 1, 5, 4, 3, 2]
    """

    def __init__(
        self,
        num_samples: int,
        block_size: int | Iterable[SupportsIndex],
        *,
        seed: int = 0,
        window: int = 8,
    ) -> None:
        self.num_samples = checked_num_samples("num_samples", num_samples)
        self.seed, self.window = integer("seed", seed), integer("window", window, 1)
        self._blocks: Even | Sized
        if isinstance(block_size, Iterable):
            sizes = integers("block_size", block_size)
            begins = array("q", accumulate(sizes, initial=0))
            if begins[-1] != self.num_samples:
                raise ValueError(
                    f"block sizes must add up to num_samples, got {begins[-1]} and "
                    f"{self.num_samples}"
                )
            self._blocks = Sized(begins)
        else:
            self._blocks = Even(self.num_samples, integer("block_size", block_size, 1))

    def __call__(self, epoch: int) -> BlockPermutation:
        """The order of one epoch."""
        return BlockPermutation(self._blocks, self.window, self.seed, integer("epoch", epoch, 0))

    @property
    def fingerprint(self) -> str:
        """What a state says of this order: its seed, window and blocks."""
        return f"blocks/1 seed={self.seed} window={self.window} {self._blocks.told}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_samples}, {self.fingerprint!r})"


@dataclass(frozen=True)
class Even:
    """Blocks of one size; only the last may be shorter.

    Attributes:
        num_samples: How many samples there are.
        size: Samples in a block.
    """

    num_samples: int
    size: int

    @property
    def told(self) -> str:
        """What a state says."""
        return f"block_size={self.size}"

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return -(-self.num_samples // self.size)

    @property
    def missing(self) -> int:
        """How many samples the last block lacks."""
        return self.count * self.size - self.num_samples

    def block(self, number: int) -> tuple[int, int]:
        """The first sample of a block, and the one after its last."""
        return number * self.size, min((number + 1) * self.size, self.num_samples)

    def block_of(self, sample: int) -> int:
        """The block that a sample is in."""
        return sample // self.size


@dataclass(frozen=True)
class Sized:
    """Blocks of several sizes. Equal if the digests of their sizes are.

    Attributes:
        begins: The first sample of each block, and how many samples there are.
    """

    begins: array[int]

    @cached_property
    def told(self) -> str:
        """What a state says."""
        return f"blocks={digest(self.begins)}"

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return len(self.begins) - 1

    @property
    def num_samples(self) -> int:
        """How many samples there are."""
        return self.begins[-1]

    def block(self, number: int) -> tuple[int, int]:
        """The first sample of a block, and the one after its last."""
        return self.begins[number], self.begins[number + 1]

    def block_of(self, sample: int) -> int:
        """The block that a sample is in."""
        return bisect_right(self.begins, sample) - 1

    def __hash__(self) -> int:
        return hash(self.told)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.count} blocks)"


@dataclass(frozen=True)
class Window:
    """Some blocks that are shuffled together.

    Attributes:
        begin: Its first position.
        firsts: The first sample of each block.
        ends: How many samples are in the blocks before each, and in all.
        shuffle: The permutation of its samples.
    """

    begin: int
    firsts: list[int]
    ends: list[int]
    shuffle: Permutation

    def take(self, places: range) -> list[int]:
        """The samples at some places of the window."""
        firsts, ends = self.firsts, self.ends
        return [
            firsts[slot] + inside - ends[slot]
            for inside in self.shuffle.take(places)
            for slot in (bisect_right(ends, inside) - 1,)
        ]

    def array(self, np: Any, places: range) -> Any:
        """The same, as an array."""
        inside = np.asarray(self.shuffle.array(places), dtype=np.int64)
        slots = np.searchsorted(np.array(self.ends), inside, side="right") - 1
        moved = np.array(self.firsts) - np.array(self.ends[:-1])
        return inside + moved[slots]


@dataclass(frozen=True)
class BlockPermutation(FullOrder):
    """One epoch of `BlockShuffled`: a bijection, which can be inverted.

    Attributes:
        blocks: What the data consists of.
        window: How many blocks are shuffled together.
        seed: The seed.
        epoch: The epoch.
    """

    blocks: Even | Sized
    window: int
    seed: int
    epoch: int

    def __len__(self) -> int:
        """How many samples there are."""
        return self.blocks.num_samples

    @cached_property
    def _order(self) -> Permutation:
        return Permutation(
            self.blocks.count, seed_of(f"elastic-sampler blocks/1 {self.seed:x}"), self.epoch
        )

    # Where windows begin: with even blocks by arithmetic, else from a list.

    @cached_property
    def _begins(self) -> array[int]:
        sizes = (end - begin for begin, end in map(self.blocks.block, self._order))
        begins = array("q", accumulate(sizes, initial=0))
        return begins[:: self.window]

    @cached_property
    def _short(self) -> int:
        """Where in the order of blocks the last, perhaps shorter one is."""
        return self._order.index(self.blocks.count - 1)

    def _begin(self, window: int) -> int:
        if isinstance(self.blocks, Sized):
            return self._begins[window]
        full = min(window * self.window, self.blocks.count)
        return full * self.blocks.size - (self.blocks.missing if self._short < full else 0)

    def _window_at(self, position: int) -> int:
        if isinstance(self.blocks, Sized):
            return bisect_right(self._begins, position) - 1
        size, short = self.window * self.blocks.size, self._short // self.window
        if position // size <= short and position < self._begin(short + 1):
            return position // size
        return (position + self.blocks.missing) // size

    @cached_property
    def _kept(self) -> dict[int, Window]:
        return {}

    def _window(self, number: int) -> Window:
        if number not in self._kept:
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[number] = self._made(number)
        return self._kept[number]

    def _made(self, number: int) -> Window:
        first = number * self.window
        blocks = [self.blocks.block(b) for b in self._order[first : first + self.window]]
        ends = list(accumulate((end - begin for begin, end in blocks), initial=0))
        seed = seed_of(f"elastic-sampler blocks/1 {self.seed:x} window {number:x}")
        shuffle = Permutation(ends[-1], seed, self.epoch)
        return Window(self._begin(number), [begin for begin, _ in blocks], ends, shuffle)

    def _parts(self, places: range) -> Iterator[tuple[Window, range]]:
        """The places in each window, counted from its beginning."""
        while places:
            window = self._window(self._window_at(places.start))
            begin = window.begin
            mine = range(places.start - begin, min(places.stop - begin, window.ends[-1]))
            yield window, mine[:: places.step]
            places = places[len(mine[:: places.step]) :]

    def at(self, position: int) -> int:
        """The sample index at `position`, `0 <= position < len(self)`."""
        return self.take(range(position, position + 1))[0]

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`, a range with a positive step. Costs O(len(places))."""
        found: Any = self.array(places)
        samples: list[int] = found if isinstance(found, list) else found.tolist()
        return samples

    def array(self, places: range) -> Any:
        """As `take`; an array where NumPy is installed and it is worth it."""
        np = numpy()
        if np is None or len(places) < WORTHWHILE:
            return [sample for window, mine in self._parts(places) for sample in window.take(mine)]
        return np.concatenate([window.array(np, mine) for window, mine in self._parts(places)])

    def position(self, sample: int) -> int:
        """The position of `sample`, `0 <= sample < len(self)`: the inverse of `at`."""
        block = self.blocks.block_of(sample)
        number, slot = divmod(self._order.index(block), self.window)
        window = self._window(number)
        inside = window.ends[slot] + sample - window.firsts[slot]
        return window.begin + window.shuffle.index(inside)

    def __getstate__(self) -> dict[str, Any]:
        # What was computed is cheap to make again.
        names = ("blocks", "window", "seed", "epoch")
        return {name: value for name, value in vars(self).items() if name in names}
