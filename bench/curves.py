"""Draw what `compare.py` found: SVGs that are legible on light and on dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

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


def draw(figures: Sequence[dict[str, Any]], directory: Path) -> None:
    """Write one SVG per question: how does each cost grow, with what?"""
    directory.mkdir(parents=True, exist_ok=True)
    epochs = [row for row in figures if row["measure"] == "iterate"]
    alone = [row for row in epochs if row["world_size"] == 1]
    least = min(row["num_samples"] for row in epochs if row["world_size"] > 1)
    several = [row for row in epochs if row["num_samples"] == least]
    resumed = [row for row in figures if row["measure"] == "resume"]
    n, w = ("num_samples", "samples"), ("world_size", "ranks")
    ns, ms = ("ns", "ns per index, set-up included"), ("first_ms", "ms to the first index")
    charts = {
        "ns-by-samples": (alone, n, ns, "One rank"),
        "ns-by-ranks": (several, w, ns, f"{least:,} samples"),
        "first-by-samples": (alone, n, ms, "The first index"),
        "resume-by-samples": (resumed, n, ms, "The first index after a resume at 99 %"),
        "memory-by-samples": (alone, n, ("peak_mb", "MB at the peak"), "Memory"),
    }
    for name, (rows, across, up, title) in charts.items():
        _chart(rows, across, up, title, directory / f"{name}.svg")


def _chart(
    rows: Sequence[dict[str, Any]],
    across: tuple[str, str],
    up: tuple[str, str],
    title: str,
    path: Path,
) -> None:
    with rc_context(STYLE):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        for name, colour in COLOURS.items():
            points = sorted(
                (row[across[0]], max(row[up[0]], 0.01))  # what is less than a page is no memory
                for row in rows
                if row["contender"] == name
            )
            if points:
                wide = 2.5 if name.startswith("ours") else 1.5
                axes.loglog(
                    *zip(*points, strict=True), "o-", ms=4, lw=wide, color=colour, label=name
                )
        axes.set_xticks(sorted({row[across[0]] for row in rows}))
        axes.set_xticks([], minor=True)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set(xlabel=across[1], ylabel=up[1], title=title)
        figure.legend(loc="outside right center", fontsize="small")
        figure.savefig(path, metadata={"Date": None})
