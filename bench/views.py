"""How the figures are looked at: one cost of all contenders, across numbers of samples or ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from contenders import BASELINE, CONTENDERS

Row: TypeAlias = dict[str, Any]
"""A contender, a measure, num_samples, world_size and the figures found."""


@dataclass(frozen=True)
class View:
    """One cost across numbers of samples (on one rank), or across world sizes.

    Attributes:
        name: Of the file that the curves are drawn to.
        title: What is shown, with its unit.
        measure: What was measured.
        figure: Which of its figures is shown.
        across: What varies: "num_samples" or "world_size".
        most: Whether, across world sizes, the largest number of samples is meant, not the least.
    """

    name: str
    title: str
    measure: str
    figure: str
    across: str
    most: bool = False

    def rows(self, figures: Sequence[Row]) -> list[Row]:
        """The rows that belong to it."""
        measured = [row for row in figures if row["measure"] == self.measure]
        if self.across == "num_samples":
            return [row for row in measured if row["world_size"] == 1]
        swept = {row["num_samples"] for row in measured if row["world_size"] > 1}
        size = (max if self.most else min)(swept, default=None)
        return [row for row in measured if row["num_samples"] == size]

    def heading(self, rows: Sequence[Row]) -> str:
        """The title, and what does not vary."""
        if self.across == "num_samples":
            return f"{self.title}, one rank"
        return f"{self.title}, {rows[0]['num_samples']:,} samples"

    def table(self, figures: Sequence[Row]) -> Iterator[str]:
        """The lines of a Markdown table: values, and in brackets their ratios to the baseline."""
        rows = self.rows(figures)
        if not rows:
            return
        values = {(row["contender"], row[self.across]): row[self.figure] for row in rows}
        columns = sorted({column for _, column in values})
        unit = "samples" if self.across == "num_samples" else "ranks"
        yield f"\n**{self.heading(rows)}**\n"
        yield f"| {unit} | {' | '.join(f'{column:,}' for column in columns)} |"
        yield f"|---|{'---:|' * len(columns)}"
        for name in CONTENDERS:
            cells = [
                _cell(values.get((name, column)), values.get((BASELINE, column)))
                for column in columns
            ]
            if any(cells):
                yield f"| {name} | {' | '.join(cells)} |"


def _cell(value: float | None, base: float | None) -> str:
    if value is None:
        return ""
    return f"{_short(value)} ({_short(value / base)})" if base else _short(value)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


VIEWS = (
    View("ns-by-samples", "ns per index, set-up included", "iterate", "ns", "num_samples"),
    View("ns-by-ranks", "ns per index, set-up included", "iterate", "ns", "world_size"),
    View(
        "following-by-ranks",
        "ns per index after the first",
        "iterate",
        "following_ns",
        "world_size",
        most=True,
    ),
    View("first-by-samples", "ms to the first index", "iterate", "first_ms", "num_samples"),
    View(
        "resume-by-samples",
        "ms to the first index after a resume at 99 %",
        "resume",
        "first_ms",
        "num_samples",
    ),
    View("memory-by-samples", "MB of memory at the peak", "iterate", "peak_mb", "num_samples"),
    View(
        "load-by-ranks",
        "µs per batch of 256 through a DataLoader, set-up included",
        "load",
        "us_per_batch",
        "world_size",
    ),
    View(
        "array-by-samples", "ns per index as an array, Share.numpy()", "array", "ns", "num_samples"
    ),
)
