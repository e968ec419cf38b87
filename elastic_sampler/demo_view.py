"""What the demo shows: a progress bar while it runs, then who got what, and the audit."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .demo import Outcome

COLORS = 36, 33, 35
"""ANSI colours of the phases: cyan, yellow, magenta."""
CELLS = 600


class Bar:
    """A progress bar on a terminal; a line per world size elsewhere."""

    def __init__(self, total: int) -> None:
        self._total, self._ranks, self._live = total, 0, sys.stdout.isatty()

    def show(self, position: int, ranks: int) -> None:
        """Draw how far the job is."""
        if self._live:
            width = 40
            filled = width * position // self._total
            bar = "#" * filled + "." * (width - filled)
            print(f"\r{ranks} ranks [{bar}] {position}/{self._total} lines", end="", flush=True)
        elif ranks != self._ranks:
            print(f"{ranks} ranks from line {position - ranks} of the epoch on", flush=True)
        self._ranks = ranks

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._live and self._ranks:
            print()


def report(outcome: Outcome, *, color: bool) -> Iterator[str]:
    """What happened, in lines for an 80-column terminal."""

    def paint(text: str, phase: int) -> str:
        return f"\x1b[{COLORS[phase]}m{text}\x1b[0m" if color else text

    four, three, five = outcome.phases
    rank, pid, code = outcome.killed
    of_all = f"of {outcome.num_lines} lines"
    began = f"{four.steps} steps are in the last checkpoint, {four.stop} {of_all}."
    yield ""
    yield "What happened"
    yield f"  {paint('4 ranks', 0)} began; {began}"
    yield f"  Rank {rank} (process {pid}) was killed with SIGKILL (it ended with {code})."
    yield (
        f"  {paint('3 ranks', 1)}, the survivors, went back to the checkpoint; {four.redone} steps "
        f"were lost."
    )
    yield f"  They carried on for {three.steps} steps, from {three.start} to {three.stop} {of_all}."
    yield f"  {paint('5 ranks', 2)}, two of them new, finished in {five.steps} steps."
    yield ""
    each = -(-outcome.num_lines // CELLS)
    of = "line" if each == 1 else f"{each}th line"
    yield f"Who got what: each {of} of the file, in order, and the rank that trained it"
    if not color:
        yield "  (in three alphabets: 0-3 by the 4 ranks, a-c by the 3, A-E by the 5)"
    owner = {s: (e.run, e.rank) for e in reversed(outcome.entries) for s in e.samples}
    alphabets = "0123", "abc", "ABCDE"
    cells = []
    for line in range(0, outcome.num_lines, each):
        phase, of_rank = owner.get(line, (0, -1))
        mark = "?" if of_rank < 0 else str(of_rank) if color else alphabets[phase][of_rank]
        cells.append(paint(mark, phase))
    for begin in range(0, len(cells), 64):
        yield f"  {begin * each:>6} {''.join(cells[begin : begin + 64])}"
    yield ""
    tail = sum(len(epoch.tail) for epoch in outcome.audit.epochs)
    seen = len({sample for entry in outcome.entries for sample in entry.samples})
    yield "The audit, from the logs of the ranks alone"
    yield from (f"  {told}" for told in str(outcome.audit).splitlines())
    verdict = "Every line was trained exactly once" if outcome.audit.exact else "NOT exactly once"
    yield f"{verdict}: {seen} {of_all};"
    yield f"{tail} repeated in the tail, so that all ranks took the same number of steps."
