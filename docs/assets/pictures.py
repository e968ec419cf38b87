"""Draw what each order does: one PNG per how-to page, from the orders themselves.

usage: python docs/assets/pictures.py [DIRECTORY]    (needs the extras `plot` and `test`)

Each picture has the positions of an epoch from left to right and the sample indices from bottom to
top: a dot is what is dealt when.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

from elastic_sampler.orders import (
    BlockShuffled,
    Concat,
    FromSampler,
    Grouped,
    Mixture,
    Sequential,
    Shuffled,
    Subset,
    Weighted,
)

Axes: TypeAlias = Any
COLOURS = ["#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860"]


def dots(axes: Axes, title: str, samples: Sequence[int], group: Callable[[int], int]) -> None:
    """One dot for each position, its colour that of the sample's group."""
    colours = [COLOURS[group(sample) % len(COLOURS)] for sample in samples]
    axes.scatter(range(len(samples)), samples, s=6, c=colours)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel("position in the epoch")
    axes.set_ylabel("sample index")


def weighted(one: Axes, other: Axes) -> None:
    """A rare class, as it lies and balanced."""
    sizes = [150, 30, 20]
    classes = [label for label, size in enumerate(sizes) for _ in range(size)]
    dots(one, "as the data lies: 150, 30 and 20 of three classes", range(200), classes.__getitem__)
    weights = [1 / sizes[label] for label in classes]
    drawn = list(Weighted(weights, seed=0)(0))
    counts = [sum(classes[sample] == label for sample in drawn) for label in range(3)]
    title = "Weighted by 1 / size: {}, {} and {} draws".format(*counts)
    dots(other, title, drawn, classes.__getitem__)


def subset(one: Axes, other: Axes) -> None:
    """Some samples of a set, and two sets in a row."""
    dots(one, "Subset(range(0, 200, 3), Shuffled(67))", list(thirds(0)), lambda sample: sample % 3)
    order = Concat({"easy": (120, Shuffled(120)), "hard": (80, Sequential(80))})
    dots(other, "Concat: easy, shuffled; then hard, as it lies", order(0), lambda s: s >= 120)


thirds = Subset(range(0, 200, 3), Shuffled(67))


def mixture(one: Axes, other: Axes) -> None:
    """Three parts, and how exact their proportions are."""
    sizes, weights = {"web": 120, "code": 60, "maths": 20}, {"web": 7, "code": 2, "maths": 1}
    order = Mixture({name: (sizes[name], weights[name]) for name in sizes}, 200, seed=0)
    names = list(sizes)
    dots(one, "Mixture 7 : 2 : 1", order(0), lambda s: names.index(order.part_of(s)[0]))
    drawn = [order.part_of(sample)[0] for sample in order(0)]
    random = Weighted([weights[name] for name in names], 200, seed=0)(0)
    for colour, name in zip(COLOURS, names, strict=False):
        for row, style in ((drawn, "-"), ([names[i] for i in random], ":")):
            counts = [row[i : i + 20].count(name) for i in range(0, 200, 20)]
            other.plot(counts, style, color=colour, linewidth=1.2)
    other.set_title("Mixture (lines) and independent draws (dotted)", fontsize=9)
    other.set_xlabel("global batch of 20")
    other.set_ylabel("samples of the part in it")


def block_shuffled(one: Axes, other: Axes) -> None:
    """Blocks of 20 in windows of 3, and a full shuffle."""
    title = "BlockShuffled(200, block_size=20, window=3)"
    dots(one, title, BlockShuffled(200, 20, window=3)(0), lambda sample: sample // 20)
    dots(other, "Shuffled(200)", Shuffled(200)(0), lambda sample: sample // 20)


class Choices:
    """A sampler of one's own."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.choices(range(200), range(200), k=200))


def from_sampler(one: Axes, other: Axes) -> None:
    """What a sampler gives, and what three ranks get of it."""
    samples = list(FromSampler(Choices())(0))
    dots(one, "what a sampler gives in an epoch", samples, lambda sample: 0)
    other.scatter(range(200), samples, s=6, c=[COLOURS[p % 3] for p in range(200)])
    other.set_title("FromSampler: the same, dealt to three ranks", fontsize=9)
    other.set_xlabel("position in the epoch")


def grouped(one: Axes, other: Axes) -> None:
    """Batches of any samples, and of those of similar length: what is padding."""
    source = random.Random(0)
    lengths = [int(source.lognormvariate(4, 0.7)) + 1 for _ in range(400)]
    for axes, buckets in ((one, 1), (other, 8)):
        batches = list(Grouped.by_length(lengths, batch_size=10, buckets=buckets)(0))
        longest = [max(lengths[sample] for sample in batch) for batch in batches]
        means = [sum(lengths[sample] for sample in batch) / len(batch) for batch in batches]
        axes.bar(range(len(batches)), longest, color="#dddddd", label="padding")
        axes.bar(range(len(batches)), means, color=COLOURS[0], label="tokens")
        part = 1 - sum(lengths) / sum(m * len(b) for m, b in zip(longest, batches, strict=True))
        axes.set_title(f"by_length, buckets={buckets}: {part:.0%} is padding", fontsize=9)
        axes.set_xlabel("batch of 10 samples")
        axes.set_ylabel("tokens per sample")
        axes.legend()


def torch_order(one: Axes, other: Axes) -> None:
    """An epoch of torch's sampler on four ranks, continued on three."""
    import torch

    generator = torch.Generator().manual_seed(7)
    samples = torch.randperm(200, generator=generator).tolist()
    for axes, begin, ranks in ((one, 0, 4), (other, 60, 3)):
        places = range(begin, 60) if axes is one else range(60, 200)
        axes.scatter(range(200), samples, s=6, c="#dddddd")
        colours = [COLOURS[(place - begin) % ranks] for place in places]
        axes.scatter(places, samples[places.start : places.stop], s=6, c=colours)
        axes.set_xlabel("position in the epoch")
    one.set_title("DistributedSampler, 4 ranks: 60 places trained", fontsize=9)
    other.set_title("the rest of the same order, on 3 ranks", fontsize=9)
    one.set_ylabel("sample index")


PICTURES: dict[str, Callable[[Axes, Axes], None]] = {
    "block-shuffled": block_shuffled,
    "from-sampler": from_sampler,
    "grouped": grouped,
    "mixture": mixture,
    "subset": subset,
    "torch-order": torch_order,
    "weighted": weighted,
}


def draw(directory: Path) -> None:
    """Write all pictures to a directory."""
    plt.rcParams.update({"font.size": 8})
    for name, picture in PICTURES.items():
        figure, axes = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
        picture(*axes)
        figure.savefig(directory / f"{name}.png", dpi=110, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
