"""Write down who trained what, one JSON line per step and rank; and read it again."""

from __future__ import annotations

import csv
import json
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from .checks import integer
from .world import World

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


@dataclass(frozen=True)
class Entry:
    """One step of one rank.

    Attributes:
        run: Number of the run: any integer that grows with every restart or resize of the job and
            is the same on all its ranks.
        epoch: The epoch.
        step: The job's step. After a resume it goes on from the checkpoint's.
        rank: The rank, in `[0, world_size)`.
        world_size: Number of ranks.
        samples: The sample indices of the step, in order.
    """

    run: int
    epoch: int
    step: int
    rank: int
    world_size: int
    samples: tuple[int, ...]

    def __post_init__(self) -> None:
        World(self.rank, self.world_size, "log")
        for name in ("run", "epoch", "step"):
            integer(name, getattr(self, name), 0)
        samples = tuple(self.samples)
        if not {int}.issuperset(map(type, samples)):
            samples = tuple(int(operator.index(sample)) for sample in samples)
        object.__setattr__(self, "samples", samples)

    @property
    def at(self) -> tuple[int, int]:
        """Epoch and step: what logs are sorted by."""
        return self.epoch, self.step


class SampleLog:
    """Appends what this rank trained to a file of its own, a line per step.

    Each line is one `write` to the file, so a process that is killed leaves whole lines behind.

    Args:
        path: The file, one per process; it is made if need be, and appended to.
        world: This process's rank and world size.
        run: Number of the run: it must grow with every restart or resize of the job and be the
            same on all its ranks (the time at which rank 0 started, say).
    """

    def __init__(self, path: str | PathLike[str], world: World, *, run: int = 0) -> None:
        self._world, self._run = world, integer("run", run, 0)
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed by close()

    def write(self, epoch: int, step: int, samples: Iterable[SupportsIndex]) -> None:
        """Log one step: any iterable of indices will do, a tensor too.

        `step` counts the steps of the job: the checkpoint carries it, and after a resume it goes
        on from there. Write the line before the checkpoint that covers the step.
        """
        world, indices = self._world, tuple(operator.index(sample) for sample in samples)
        entry = Entry(self._run, epoch, step, world.rank, world.size, indices)
        self._file.write(json.dumps(asdict(entry)).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class Line:
    """A line of a log, or a few of a CSV file that belong to one step.

    Attributes:
        number: Of its first line in the file, from 1.
        begin: Where it begins in the file, in bytes.
        end: Where it ends.
        entry: What it says, None if it is not an entry.
        problem: Why it is none.
    """

    number: int
    begin: int
    end: int
    entry: Entry | None
    problem: str = ""


def read_log(path: str | PathLike[str]) -> Iterator[Entry]:
    """The entries of one log. A last line without an end was torn by a kill: it is left out.

    A file whose name ends with `.csv` begins with a header that names the columns; `samples` has
    the indices of a step with spaces between, and a step may take several rows. Any other file has
    a JSON object in each line. Other columns or keys are ignored; `run` is 0 where it is missing.

    Raises:
        ValueError: A line is not an entry; it names file and line.
    """
    for line in read_lines(path):
        if line.entry is None:
            raise ValueError(f"{path}, line {line.number}: {line.problem}")
        yield line.entry


def read_lines(path: str | PathLike[str], begin: int = 0, end: int | None = None) -> Iterator[Line]:
    """The lines of one log, or of the part `[begin, end)` of it, in bytes; they cost O(1) memory.

    The numbers of lines are right only from the beginning.
    """
    with Path(path).open("rb") as file:
        parse: Callable[[bytes], Entry] = _from_json
        header = file.readline() if str(path).endswith(".csv") else b""
        at = len(header)
        if header:
            try:
                parse = _from_csv(header)
            except ValueError as error:
                yield Line(1, 0, at, None, str(error))
                return
        at = max(at, begin)
        file.seek(at)
        held: Line | None = None
        for number, text in enumerate(file, 2 if header else 1):
            if not text.endswith(b"\n") or (end is not None and at >= end):
                break
            line = _line(parse, text, number, at)
            at = line.end
            joined = None if parse is _from_json or held is None else _joined(held, line)
            if joined is None and held is not None:
                yield held
            held = joined or line
        if held is not None:
            yield held


def _line(parse: Callable[[bytes], Entry], text: bytes, number: int, begin: int) -> Line:
    end = begin + len(text)
    try:
        return Line(number, begin, end, parse(text))
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        return Line(number, begin, end, None, f"not an entry of a log: {why}")


def _joined(first: Line, second: Line) -> Line | None:
    """Both as one, if they are of the same step and rank."""
    one, two = first.entry, second.entry
    if one is None or two is None or replace(one, samples=()) != replace(two, samples=()):
        return None
    entry = replace(one, samples=one.samples + two.samples)
    return Line(first.number, first.begin, second.end, entry)


def _from_json(text: bytes) -> Entry:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError(f"a JSON object is expected, got {text[:40]!r}")
    named: dict[str, Any] = {"run": 0} | found
    return Entry(**{name: named[name] for name in Entry.__dataclass_fields__})


def _from_csv(header: bytes) -> Callable[[bytes], Entry]:
    columns = [name.strip() for name in next(csv.reader([header.decode()]), [])]
    needed = [name for name in Entry.__dataclass_fields__ if name != "run"]
    if missing := [name for name in needed if name not in columns]:
        raise ValueError(
            f"the header of a CSV file must name the columns {', '.join(needed)}, "
            f"and this one lacks {', '.join(missing)}"
        )

    def parse(text: bytes) -> Entry:
        row = dict(zip(columns, next(csv.reader([text.decode()]), []), strict=True))
        number = {
            name: int(row.get(name, 0)) for name in Entry.__dataclass_fields__ if name != "samples"
        }
        return Entry(**number, samples=tuple(map(int, row["samples"].split())))

    return parse
