"""Draw what `compare.py` found: SVGs that are legible on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from views import VIEWS, Row, View

GREY = "#808080"
"""Of text and lines: legible on white and on black."""

COLOURS = {
    "ours": "#e4572e",
    "ours, no NumPy": "#f0a202",
    "torch DistributedSampler": "#3b8ea5",
    "torch RandomSampler": "#6aa6d8",
    "torchdata StatefulDistributedSampler": "#7768ae",
    "Accelerate BatchSamplerShard": "#b565a7",
    "Grain IndexSampler": "#4f9d69",
    "Grain MapDataset.shuffle": "#8db600",
    "list + random.shuffle": "#9c7a54",
}

STYLE: dict[Any, Any] = {
    "svg.hashsalt": "elastic-sampler",  # the same figures draw the same file
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "savefig.transparent": True,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def draw(figures: Sequence[Row], directory: Path) -> None:
    """Write one SVG per view: how does this cost grow, with what?"""
    directory.mkdir(parents=True, exist_ok=True)
    for view in VIEWS:
        if len({row[view.across] for row in view.rows(figures)}) > 1:
            _chart(view, view.rows(figures), directory / f"{view.name}.svg")


def _chart(view: View, rows: Sequence[Row], path: Path) -> None:
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, colour in COLOURS.items():
            points = sorted(
                (row[view.across], max(row[view.figure], 0.01))  # less than a page is no memory
                for row in rows
                if row["contender"] == name
            )
            if points:
                wide = 2.5 if name.startswith("ours") else 1.5
                axes.loglog(
                    *zip(*points, strict=True), "o-", ms=4, lw=wide, color=colour, label=name
                )
        axes.set_xticks(sorted({row[view.across] for row in rows}))
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel="samples" if view.across == "num_samples" else "ranks")
        axes.set_title(view.heading(rows), fontsize="medium")
        figure.legend(loc="outside right center", fontsize="small")
        figure.savefig(path, metadata={"Date": None})
