"""What the commands `plan` and `audit` print: tables and sentences, JSON, pictures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import auditing, simulation
from .auditing import Audit, Findings
from .picture import save
from .simulation import Report

SHOWN = 10
"""So many findings of a kind are printed."""


def plan(options: argparse.Namespace) -> int:
    """The command `plan`."""
    try:
        report = simulation.simulate(
            options.num_samples,
            options.worlds,
            batch_size=options.batch_size,
            global_batch_size=options.global_batch_size,
            epoch=options.epoch,
            shuffle=options.shuffle,
            seed=options.seed,
            tail=options.tail,
        )
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.picture and not _drawn(report, options.picture):
        return 2
    if options.json:
        print(json.dumps(_as_json(report), indent=2))
        return 0
    rows = [("round", "ranks", "steps", "samples per rank", "position after")]
    for number, found in enumerate(report.rounds, 1):
        least, most = min(found.samples_per_rank), max(found.samples_per_rank)
        rows.append(
            (
                str(number),
                f"{found.world_size:,}",
                f"{found.steps:,}",
                f"{most:,}" if least == most else f"{least:,} to {most:,}",
                f"{found.stop:,}",
            )
        )
    _print_table(rows, right=True)
    print()
    print(
        f"{report.seen:,} of {report.num_samples:,} samples seen once, {report.repeated:,} "
        f"repeated in the tail, {report.unseen:,} not seen."
    )
    skipped = len(options.worlds) - len(report.rounds)
    if not report.finished and report.num_samples:
        print(
            f"The epoch is not finished: {report.num_samples - report.rounds[-1].stop:,} samples "
            f"are left for whoever resumes at position {report.rounds[-1].stop:,}."
        )
    if skipped:
        print(f"The epoch had ended before the last {skipped} world sizes of the history.")
    return 0


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "num_samples": report.num_samples,
        "tail": report.tail,
        "rounds": [
            {
                "world_size": found.world_size,
                "steps": found.steps,
                "samples_per_rank": list(found.samples_per_rank),
                "position_before": found.start,
                "position_after": found.stop,
            }
            for found in report.rounds
        ],
        "finished": report.finished,
        "seen_once": report.seen,
        "repeated_in_the_tail": report.repeated,
        "not_seen": report.unseen,
    }


def _drawn(report: Report | Audit, path: Path) -> bool:
    """Draw it to a file. Says why, if that cannot be."""
    try:
        save(report.plot(), path)
    except (ImportError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return False
    return True


def audit(options: argparse.Namespace) -> int:
    """The command `audit`."""
    try:
        report = auditing.audit(
            options.files,
            options.num_samples,
            tail=options.tail,
            places=options.global_batch_size,
            epochs=options.epochs,
            strict=False,
        )
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for problem in report.unreadable.first[:SHOWN]:
        print(problem, file=sys.stderr)
    if options.picture and not _drawn(report, options.picture):
        return 2
    if options.json:
        print(json.dumps(_audit_as_json(report), indent=2))
        return 0 if report.exact else 1
    print(report)
    for epoch in report.epochs:
        for what in ("lost", "repeated", "foreign"):
            some = getattr(epoch, what)
            if some:
                more = ", ..." if len(some) > SHOWN else ""
                print(f"  {what}: {', '.join(map(str, some.first[:SHOWN]))}{more}")
        for told in epoch.unequal.first[:SHOWN]:
            print(f"  {told}")
    for told in report.disordered.first[:SHOWN]:
        print(f"  {told}")
    return 0 if report.exact else 1


def _audit_as_json(report: Audit) -> dict[str, Any]:
    kinds = ("lost", "dropped", "repeated", "tail", "foreign", "unequal")

    def some(found: Findings[Any]) -> dict[str, Any]:
        return {"count": len(found), "first": list(found.first)}

    return {
        "exact": report.exact,
        "epochs": [
            {
                "epoch": epoch.epoch,
                "exact": epoch.exact,
                "steps": epoch.steps,
                "trained": epoch.trained,
                **{kind: some(getattr(epoch, kind)) for kind in kinds},
            }
            for epoch in report.epochs
        ],
        "redone_lines": report.redone,
        "disordered_lines": some(report.disordered),
        "unreadable_lines": some(report.unreadable),
    }


def _print_table(rows: Sequence[Sequence[str]], *, right: bool = False) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = zip(row, widths, strict=True)
        line = "  ".join(c.rjust(w) if right else c.ljust(w) for c, w in cells)
        print(line.rstrip())
