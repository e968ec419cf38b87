"""What was lost, repeated or unequal? The answer from the logs alone.

Logs are read twice and never held: first to find where they are sorted and what later runs did
again, then merged by (epoch, step). What is kept is two bits per sample, the lines of one step, and
the first findings of each kind.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Generic, TypeVar

from .checks import integer
from .checks import num_samples as checked_num_samples
from .picture import Band, Mark, draw
from .sample_log import Entry, read_lines
from .share import TAILS, Tail

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Found = TypeVar("Found")

KEPT = 1000
"""So many findings of a kind are kept; all are counted."""


@dataclass(frozen=True)
class Findings(Generic[Found]):
    """What was found of a kind: how many, and some of them. False if there are none.

    Attributes:
        count: How many there are.
        first: The first 1000 that were found; samples in ascending order.
    """

    count: int = 0
    first: tuple[Found, ...] = ()

    def __len__(self) -> int:
        return self.count


class _Finding(Generic[Found]):
    """Collects findings."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Found] = []

    def add(self, found: Found) -> None:
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(found)

    def done(self) -> Findings[Found]:
        return Findings(self.count, tuple(self.first))


@dataclass(frozen=True)
class EpochAudit:
    """What the ranks trained in one epoch, redone steps apart.

    Attributes:
        epoch: The epoch.
        steps: Number of steps.
        trained: Number of samples trained, repeats included.
        lost: Samples that no rank trained.
        dropped: The same, as far as `tail="drop"` explains them: less than one step's places.
        repeated: Samples that were trained more often than once, the tail apart.
        tail: The wrap-around repeats at the end: less than one step's places.
        foreign: Indices that are not in `[0, num_samples)`, as often as they were trained.
        unequal: Steps in which ranks are missing, or have other numbers of samples than others (by
            more than one, where `places` does not divide by the ranks), each a sentence. With
            `tail="uneven"` the last step is exempt.
        bands: Each stretch of steps of one run: who trained from which position to which.
        marks: The repeats, by rank and position, those of the tail too.
    """

    epoch: int
    steps: int
    trained: int
    lost: Findings[int]
    dropped: Findings[int]
    repeated: Findings[int]
    tail: Findings[int]
    foreign: Findings[int]
    unequal: Findings[str]
    bands: tuple[Band, ...] = field(repr=False)
    marks: Findings[Mark] = field(repr=False)

    @property
    def exact(self) -> bool:
        """Whether every sample was trained exactly once, but for what the tail explains."""
        return not (self.lost or self.repeated or self.foreign or self.unequal)

    def __str__(self) -> str:
        found: dict[str, Findings[int] | Findings[str]] = {
            "lost": self.lost,
            "dropped by the tail": self.dropped,
            "repeated": self.repeated,
            "repeated in the tail": self.tail,
            "foreign": self.foreign,
            "unequal steps": self.unequal,
        }
        said = ", ".join(f"{len(some)} {what}" for what, some in found.items() if some)
        verdict = "exactly once" if self.exact else "NOT exactly once"
        return f"epoch {self.epoch}: {self.trained} trained in {self.steps} steps: {verdict}" + (
            f"; {said}" if said else ""
        )


@dataclass(frozen=True)
class Audit:
    """What the logs of a job say.

    Attributes:
        num_samples: Number of samples of an epoch.
        epochs: One `EpochAudit` for each epoch, in order.
        redone: How many log lines do not count, because a later run did their steps again from
            the checkpoint that it resumed from.
        disordered: Lines whose step is before that of an earlier line of the same rank and run,
            each a sentence.
        unreadable: Lines that are not entries, each a sentence; they do not count.
    """

    num_samples: int
    epochs: tuple[EpochAudit, ...]
    redone: int
    disordered: Findings[str]
    unreadable: Findings[str]

    @property
    def exact(self) -> bool:
        """Whether in every epoch every sample was trained exactly once, but for the tail."""
        return not self.disordered and all(epoch.exact for epoch in self.epochs)

    def __str__(self) -> str:
        lines = {
            "redone after a resume": self.redone,
            "out of order": len(self.disordered),
            "that are not entries of a log": len(self.unreadable),
        }
        told = [f"{count} lines {what}" for what, count in lines.items() if count]
        return "\n".join([*map(str, self.epochs), *told])

    def plot(self) -> Figure:
        """Draw position against rank, a panel for each epoch. Needs matplotlib: extra "plot"."""
        panels = {f"epoch {e.epoch}": (e.bands, e.marks.first) for e in self.epochs}
        return draw(self.num_samples, panels)


def audit(
    logs: Iterable[str | PathLike[str] | Entry],
    num_samples: int,
    *,
    tail: Tail = "wrap",
    places: int | None = None,
    epochs: Iterable[int] | None = None,
    strict: bool = True,
) -> Audit:
    """Say from the logs of all ranks what was lost, repeated or unequal between them.

    A run resumes from a checkpoint, so what earlier runs logged from its first (epoch, step) on was
    thrown away and done again: it does not count. Files are read twice, line by line: memory is
    two bits per sample of one epoch, whatever was logged.

    Args:
        logs: Files that `SampleLog` wrote, or other code (see `read_log`), one or more of each
            rank, in any order; or entries.
        num_samples: Number of samples of an epoch.
        tail: The sampler's: it says what the end of an epoch may look like.
        places: How many places of the order a step has at least, if not one per rank: the global
            batch size for global batches. The tail is shorter than that.
        epochs: Which epochs to look at, all by default. Leave out one that was not finished.
        strict: Whether a line that is not an entry is an error; else it is listed.

    Raises:
        ValueError: A line of a log is not an entry; it names file and line.
    """
    num_samples = checked_num_samples("num_samples", num_samples)
    if tail not in TAILS:
        raise ValueError(f"tail must be one of {', '.join(map(repr, TAILS))}, got {tail!r}")
    if places is not None:
        places = integer("places", places, 1)
    survey = _Survey(strict)
    for log in logs:
        if isinstance(log, Entry):
            survey.add_entry(log)
        else:
            survey.add_file(log)
    redone_from = _redone_from(survey.first)
    wanted = None if epochs is None else set(epochs)
    audited: dict[int, EpochAudit] = {}
    done = 0

    def counted() -> Iterator[Entry]:
        nonlocal done
        for entry in _merged(survey.sorted_parts()):
            if entry.at < redone_from[entry.run]:
                done += 1
                yield entry

    for epoch, entries in groupby(counted(), attrgetter("epoch")):
        if wanted is None or epoch in wanted:
            by_step = groupby(entries, attrgetter("step"))
            steps = (sorted(step, key=attrgetter("rank")) for _, step in by_step)
            audited[epoch] = _audit_epoch(epoch, steps, num_samples, tail, places)
    for epoch in (wanted or set()) - set(audited):
        audited[epoch] = _audit_epoch(epoch, (), num_samples, tail, places)
    return Audit(
        num_samples=num_samples,
        epochs=tuple(audited[epoch] for epoch in sorted(audited)),
        redone=survey.count - done,
        disordered=survey.disordered.done(),
        unreadable=survey.unreadable.done(),
    )


@dataclass(frozen=True)
class _Sorted:
    """A part of the logs that is sorted by epoch and step, and how to read it."""

    first: tuple[int, int]
    read: Callable[[], Iterator[Entry]]


class _Survey:
    """What the first look at the logs finds."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        self.first: dict[int, tuple[int, int]] = {}  # of each run
        self.disordered, self.unreadable = _Finding[str](), _Finding[str]()
        self._parts: list[_Sorted] = []
        self._entries: list[Entry] = []

    def add_entry(self, entry: Entry) -> None:
        self._note(entry)
        self._entries.append(entry)

    def add_file(self, path: str | PathLike[str]) -> None:
        latest: dict[tuple[int, int], tuple[int, int]] = {}  # of each run and rank
        begin, end = 0, 0
        first: tuple[int, int] | None = None
        previous = (-1, -1)
        for line in read_lines(path):
            entry = line.entry
            if entry is None:
                problem = f"{path}, line {line.number}: {line.problem}"
                if self.strict:
                    raise ValueError(problem)
                self.unreadable.add(problem)
                continue
            who = entry.run, entry.rank
            before = latest.get(who, entry.at)
            if entry.at < before:
                self.disordered.add(
                    f"{path}, line {line.number}: epoch {entry.epoch}, step {entry.step} of rank "
                    f"{entry.rank} after epoch {before[0]}, step {before[1]} of the same run"
                )
            latest[who] = max(before, entry.at)
            if entry.at < previous:
                self._add_part(path, begin, end, first)
                begin, first = line.begin, None
            first = first or entry.at
            previous, end = entry.at, line.end
            self._note(entry)
        self._add_part(path, begin, end, first)

    def _note(self, entry: Entry) -> None:
        self.count += 1
        self.first[entry.run] = min(self.first.get(entry.run, entry.at), entry.at)

    def _add_part(
        self, path: str | PathLike[str], begin: int, end: int, first: tuple[int, int] | None
    ) -> None:
        if first is not None:
            self._parts.append(_Sorted(first, partial(_entries_of, path, begin, end)))

    def sorted_parts(self) -> list[_Sorted]:
        if not self._entries:
            return self._parts
        entries = sorted(self._entries, key=attrgetter("at"))
        return [*self._parts, _Sorted(entries[0].at, partial(iter, entries))]


def _entries_of(path: str | PathLike[str], begin: int, end: int) -> Iterator[Entry]:
    return (line.entry for line in read_lines(path, begin, end) if line.entry is not None)


def _merged(parts: Sequence[_Sorted]) -> Iterator[Entry]:
    """All entries by epoch and step. A part is opened when its turn has come, and not before."""
    waiting = sorted(parts, key=attrgetter("first"), reverse=True)
    heap: list[tuple[tuple[int, int], int, Entry, Iterator[Entry]]] = []
    while waiting or heap:
        if waiting and (not heap or waiting[-1].first <= heap[0][0]):
            number, entries = len(waiting), waiting.pop().read()
        else:
            _, number, entry, entries = heapq.heappop(heap)
            yield entry
        for entry in entries:
            heapq.heappush(heap, (entry.at, number, entry, entries))
            break


def counted(entries: Sequence[Entry]) -> list[Entry]:
    """The entries that no later run did again."""
    survey = _Survey(strict=True)
    for entry in entries:
        survey.add_entry(entry)
    redone_from = _redone_from(survey.first)
    return [entry for entry in entries if entry.at < redone_from[entry.run]]


def _redone_from(first: dict[int, tuple[int, int]]) -> dict[int, tuple[float, float]]:
    """For each run the (epoch, step) from which on a later one did its work again."""
    found: dict[int, tuple[float, float]] = {}
    least: tuple[float, float] = (float("inf"), float("inf"))
    for run in sorted(first, reverse=True):
        found[run] = least
        least = min(least, first[run])
    return found


class _Seen:
    """Which of n samples were seen, and which of them again: two bits for each."""

    def __init__(self, num_samples: int) -> None:
        self.num_samples = num_samples
        self._once, self._again = (bytearray(num_samples // 8 + 1) for _ in range(2))
        self.count = 0  # of samples, each counted once
        self.repeated = 0

    def add(self, sample: int) -> bool:
        """Whether it had been seen before."""
        place, bit = sample >> 3, 1 << (sample & 7)
        if not self._once[place] & bit:
            self._once[place] |= bit
            self.count += 1
            return False
        if not self._again[place] & bit:
            self._again[place] |= bit
            self.repeated += 1
        return True

    def __contains__(self, sample: int) -> bool:
        return bool(self._once[sample >> 3] & 1 << (sample & 7))

    def findings(self) -> tuple[Findings[int], Findings[int]]:
        """Those that were not seen, and those that were seen again."""
        missing = self.num_samples - self.count
        unseen = _first(self._once, missing, self.num_samples, 0xFF)
        return Findings(missing, unseen), Findings(
            self.repeated, _first(self._again, self.repeated, self.num_samples, 0)
        )


def _first(bits: bytearray, count: int, stop: int, plain: int) -> tuple[int, ...]:
    """The first samples whose bits are not as plain bytes have them, `count` of them if so many."""
    found: list[int] = []
    for place, byte in enumerate(bits):
        if len(found) >= min(count, KEPT):
            break
        if byte != plain:
            different = (sample for sample in range(8) if (byte ^ plain) >> sample & 1)
            found += [place * 8 + sample for sample in different if place * 8 + sample < stop]
    return tuple(found[:KEPT])


def _audit_epoch(
    epoch: int, steps: Iterable[list[Entry]], num_samples: int, tail: Tail, places: int | None
) -> EpochAudit:
    seen = _Seen(num_samples)
    trained = count = 0
    foreign, unequal, marks = _Finding[int](), _Finding[str](), _Finding[Mark]()
    bands: list[Band] = []
    last: list[Entry] = []  # what the end of an epoch may look like is known when it has come
    for entries in steps:
        list(_trained(last, seen, trained, marks, foreign))
        trained += sum(len(entry.samples) for entry in last)
        for told in _unequal(last, places):
            unequal.add(told)
        last, count = entries, count + 1
        _extend(bands, entries, trained)
    repeats_before = seen.findings()[1]
    ending = list(_trained(last, seen, trained, marks, foreign))
    trained += sum(len(entry.samples) for entry in last)
    if tail != "uneven":
        for told in _unequal(last, places):
            unequal.add(told)
    room = (places or max((entry.world_size for entry in last), default=1)) - 1
    missing, repeats = seen.findings()
    wraps = tail in ("wrap", "fill") and len(ending) <= room
    dropped = tail == "drop" and len(missing) <= room
    none = Findings[int]()
    return EpochAudit(
        epoch=epoch,
        steps=count,
        trained=trained,
        lost=none if dropped else missing,
        dropped=missing if dropped else none,
        repeated=repeats_before if wraps else repeats,
        tail=Findings(len(ending), tuple(sorted(ending)[:KEPT])) if wraps else none,
        foreign=Findings(foreign.count, tuple(sorted(foreign.first))),
        unequal=unequal.done(),
        bands=tuple(bands),
        marks=marks.done(),
    )


def _trained(
    entries: list[Entry],
    seen: _Seen,
    start: int,
    marks: _Finding[Mark],
    foreign: _Finding[int],
) -> Iterator[int]:
    """Count one step that begins at position `start`; yields the samples that are repeats."""
    for entry in entries:
        for row, sample in enumerate(entry.samples):
            if not 0 <= sample < seen.num_samples:
                foreign.add(sample)
            elif seen.add(sample):
                marks.add(Mark(entry.rank, start + row * len(entries) + entry.rank))
                yield sample


def _extend(bands: list[Band], entries: list[Entry], start: int) -> None:
    """Add a step to the last band, or begin another one with it."""
    stop = start + sum(len(entry.samples) for entry in entries)
    run, size = entries[0].run, entries[0].world_size
    if bands and (bands[-1].run, bands[-1].world_size) == (run, size):
        band = bands.pop()
        bands.append(Band(size, band.start, stop, band.steps + 1, run))
    else:
        bands.append(Band(size, start, stop, 1, run))


def _unequal(entries: list[Entry], places: int | None) -> list[str]:
    """What is wrong with one step, as seen by all ranks that logged it."""
    if not entries:
        return []
    where = f"epoch {entries[0].epoch}, step {entries[0].step}"
    worlds = sorted({(entry.run, entry.world_size) for entry in entries})
    if len(worlds) > 1:
        return [f"{where}: ranks of different runs or world sizes {worlds}"]
    ranks = Counter(entry.rank for entry in entries)
    absent = [rank for rank in range(worlds[0][1]) if rank not in ranks]
    twice = [rank for rank, count in ranks.items() if count > 1]
    sizes = sorted({len(entry.samples) for entry in entries})
    apart = 1 if places and places % worlds[0][1] else 0  # what a global batch leaves undivided
    told = []
    if absent:
        told.append(f"{where}: nothing from ranks {absent} of {worlds[0][1]}")
    if twice:
        told.append(f"{where}: more than one line from ranks {sorted(twice)}")
    if sizes[-1] - sizes[0] > apart:
        told.append(f"{where}: ranks have different numbers of samples {sizes}")
    return told
