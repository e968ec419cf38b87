"""What was lost, repeated or unequal? The answer from the logs alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike

from .checks import integer
from .checks import num_samples as checked_num_samples
from .sample_log import Entry, read_log
from .share import TAILS, Tail


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
        foreign: Indices that are not in `[0, num_samples)`.
        unequal: Steps in which ranks are missing, or have other numbers of samples than others (by
            more than one, where `places` does not divide by the ranks), each a sentence. With
            `tail="uneven"` the last step is exempt.
    """

    epoch: int
    steps: int
    trained: int
    lost: tuple[int, ...]
    dropped: tuple[int, ...]
    repeated: tuple[int, ...]
    tail: tuple[int, ...]
    foreign: tuple[int, ...]
    unequal: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Whether every sample was trained exactly once, but for what the tail explains."""
        return not (self.lost or self.repeated or self.foreign or self.unequal)

    def __str__(self) -> str:
        found = {
            "lost": len(self.lost),
            "dropped by the tail": len(self.dropped),
            "repeated": len(self.repeated),
            "repeated in the tail": len(self.tail),
            "foreign": len(self.foreign),
            "unequal steps": len(self.unequal),
        }
        said = ", ".join(f"{count} {what}" for what, count in found.items() if count)
        verdict = "exactly once" if self.exact else "NOT exactly once"
        return f"epoch {self.epoch}: {self.trained} trained in {self.steps} steps: {verdict}" + (
            f"; {said}" if said else ""
        )


@dataclass(frozen=True)
class Audit:
    """What the logs of a job say.

    Attributes:
        epochs: One `EpochAudit` for each epoch, in order.
        redone: How many log lines do not count, because a later run did their steps again from
            the checkpoint that it resumed from.
    """

    epochs: tuple[EpochAudit, ...]
    redone: int

    @property
    def exact(self) -> bool:
        """Whether in every epoch every sample was trained exactly once, but for the tail."""
        return all(epoch.exact for epoch in self.epochs)

    def __str__(self) -> str:
        redone = f"{self.redone} lines redone after a resume" if self.redone else ""
        return "\n".join(filter(None, (*map(str, self.epochs), redone)))


def audit(
    logs: Iterable[str | PathLike[str] | Entry],
    num_samples: int,
    *,
    tail: Tail = "wrap",
    places: int | None = None,
    epochs: Iterable[int] | None = None,
) -> Audit:
    """Say from the logs of all ranks what was lost, repeated or unequal between them.

    A run resumes from a checkpoint, so what earlier runs logged from its first (epoch, step) on was
    thrown away and done again: it does not count.

    Args:
        logs: Files that `SampleLog` wrote, one or more of each rank, in any order; or entries.
        num_samples: Number of samples of an epoch.
        tail: The sampler's: it says what the end of an epoch may look like.
        places: How many places of the order a step has at least, if not one per rank: the global
            batch size for global batches. The tail is shorter than that.
        epochs: Which epochs to look at, all by default. Leave out one that was not finished.

    Raises:
        ValueError: A line of a log is not an entry; it names file and line.
    """
    num_samples = checked_num_samples("num_samples", num_samples)
    if tail not in TAILS:
        raise ValueError(f"tail must be one of {', '.join(map(repr, TAILS))}, got {tail!r}")
    if places is not None:
        places = integer("places", places, 1)
    entries: list[Entry] = []
    for log in logs:
        entries += [log] if isinstance(log, Entry) else read_log(log)
    done = counted(entries)
    wanted = {entry.epoch for entry in done} if epochs is None else set(epochs)
    found = tuple(
        _audit_epoch(epoch, [e for e in done if e.epoch == epoch], num_samples, tail, places)
        for epoch in sorted(wanted)
    )
    return Audit(found, len(entries) - len(done))


def counted(entries: list[Entry]) -> list[Entry]:
    """The entries that no later run did again."""
    first: dict[int, tuple[int, int]] = {}
    for entry in entries:
        at = (entry.epoch, entry.step)
        first[entry.run] = min(first.get(entry.run, at), at)
    redone_from: dict[int, tuple[float, float]] = {}
    least: tuple[float, float] = (float("inf"), float("inf"))
    for run in sorted(first, reverse=True):
        redone_from[run] = least
        least = min(least, first[run])
    return [entry for entry in entries if (entry.epoch, entry.step) < redone_from[entry.run]]


def _audit_epoch(
    epoch: int, entries: list[Entry], num_samples: int, tail: Tail, places: int | None
) -> EpochAudit:
    steps: dict[int, list[Entry]] = {}
    for entry in entries:
        steps.setdefault(entry.step, []).append(entry)
    last = max(steps, default=0)
    room = (places or max((entry.world_size for entry in steps.get(last, ())), default=1)) - 1
    before, ending = Counter[int](), Counter[int]()
    for entry in entries:
        (ending if entry.step == last else before).update(entry.samples)
    seen = before + ending
    repeats_before = Counter({sample: n - 1 for sample, n in before.items() if n > 1})
    repeats = Counter({sample: n - 1 for sample, n in seen.items() if n > 1})
    at_the_end = repeats - repeats_before
    wraps = tail in ("wrap", "fill") and at_the_end.total() <= room
    missing = tuple(sample for sample in range(num_samples) if sample not in seen)
    dropped = tail == "drop" and len(missing) <= room
    exempt = last if tail == "uneven" else None
    return EpochAudit(
        epoch=epoch,
        steps=len(steps),
        trained=seen.total(),
        lost=() if dropped else missing,
        dropped=missing if dropped else (),
        repeated=tuple(sorted(repeats_before if wraps else repeats)),
        tail=tuple(sorted(at_the_end.elements())) if wraps else (),
        foreign=tuple(sorted(sample for sample in seen if sample not in range(num_samples))),
        unequal=tuple(
            told
            for step in sorted(steps)
            if step != exempt
            for told in _unequal(epoch, step, steps[step], places)
        ),
    )


def _unequal(epoch: int, step: int, entries: list[Entry], places: int | None) -> list[str]:
    """What is wrong with one step, as seen by all ranks that logged it."""
    where = f"epoch {epoch}, step {step}"
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
