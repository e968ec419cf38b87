"""Position against rank: one band per round, repeats marked. Needs matplotlib, the extra "plot"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of middle lightness: legible on white and on dark grey.
COLOURS = ("#4477AA", "#228833", "#AA6633", "#8866BB", "#338899", "#997700")
INK, MARK = "#808080", "#EE4455"
CELLS = 64
"""Up to so many rows of positions each sample is drawn as a cell of its own."""


@dataclass(frozen=True)
class Band:
    """A stretch of an epoch at one world size.

    Attributes:
        world_size: Number of ranks.
        start: Position at which it began.
        stop: Position at which it ended, repeats included.
        steps: Number of steps.
        run: Number of the run, or of the round.
        start_rank: What turns the ranks: rank r has the seat `(r + start_rank) mod world_size`.
    """

    world_size: int
    start: int
    stop: int
    steps: int
    run: int
    start_rank: int = 0


class Mark(NamedTuple):
    """A repeat: who trained it, and where.

    Attributes:
        rank: The rank.
        position: The position, counted on past the end of the epoch.
    """

    rank: int
    position: int


def draw(num_samples: int, panels: Mapping[str, tuple[Sequence[Band], Iterable[Mark]]]) -> Figure:
    """Draw epochs side by side, position downwards against rank, on a transparent ground.

    Four of them stand in a row.

    Args:
        num_samples: Length of an epoch: where its end is drawn.
        panels: For each title the bands and the repeats of an epoch.

    Raises:
        ImportError: matplotlib is not installed: the extra "plot".
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(
            "a picture needs matplotlib: pip install 'elastic-sampler[plot]'"
        ) from None
    panels = panels or {"nothing": ((), ())}
    runs = sorted({band.run for bands, _ in panels.values() for band in bands})
    colours = {run: COLOURS[number % len(COLOURS)] for number, run in enumerate(runs)}
    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(1.2 + 4.2 * columns, 4.6 * rows), layout="constrained")
    figure.patch.set_alpha(0)
    for number, (title, (bands, marks)) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(rows, columns, number)
        _panel(axes, num_samples, bands, list(marks), colours)
        axes.set_title(title, color=INK, fontsize=11)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure to an .svg or .png file, the same bytes each time.

    Raises:
        OSError: The file cannot be written.
    """
    from matplotlib import rc_context

    # Text stays text: small, searchable, in the reader's own font.
    with rc_context({"svg.hashsalt": "elastic-sampler", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)


def _panel(
    axes: Axes,
    num_samples: int,
    bands: Sequence[Band],
    marks: list[Mark],
    colours: Mapping[int, str],
) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    widest = max((band.world_size for band in bands), default=1)
    end = max([num_samples, *(band.stop for band in bands)])
    cells = sum(-(-(band.stop - band.start) // band.world_size) for band in bands) <= CELLS
    for band in bands:
        colour = colours[band.run]
        for rank in range(band.world_size):
            _column(axes, band, rank, colour, cells)
        middle = (band.start + band.stop) / 2
        told = f"{band.world_size} rank{'s' * (band.world_size > 1)}\n{band.steps:,} steps"
        axes.text(widest + 0.15, middle, told, color=colour, va="center", fontsize=9)
    if marks:
        height = 0.8 if cells else end / 100
        axes.bar(
            [mark.rank + 0.5 for mark in marks],
            height,
            0.8,
            [mark.position + (1 - height) / 2 * cells for mark in marks],
            color=MARK,
        )
        axes.text(widest + 0.15, end, f"{len(marks):,} repeated", color=MARK, fontsize=9)
    if end > num_samples:
        axes.axhline(num_samples, color=INK, linewidth=1, linestyle="--")
    axes.set_xlim(0, widest * 1.3 + 0.8)
    axes.set_ylim(max(end, 1), 0)
    axes.set_xlabel("rank", color=INK, loc="left")
    axes.set_ylabel("position in the epoch", color=INK)
    shown = range(0, widest, -(-widest // 16))
    axes.set_xticks([rank + 0.5 for rank in shown], [str(rank) for rank in shown])
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(colors=INK, length=0)
    axes.patch.set_alpha(0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _column(axes: Axes, band: Band, rank: int, colour: str, cells: bool) -> None:
    """What one rank had in a band: a cell for each sample, or one long one."""
    if cells:
        # Rank r has the positions of its seat: one in each row of as many as there are ranks.
        seat = (rank + band.start_rank) % band.world_size
        tops = list(range(band.start + seat, band.stop, band.world_size))
        axes.bar([rank + 0.5] * len(tops), 0.8, 0.8, [top + 0.1 for top in tops], color=colour)
    else:
        axes.bar([rank + 0.5], band.stop - band.start, 0.86, [band.start], color=colour)
