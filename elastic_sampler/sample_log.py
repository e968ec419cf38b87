"""Write down who trained what: one JSON line per step and rank."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, SupportsIndex

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
        samples = tuple(int(operator.index(sample)) for sample in self.samples)
        object.__setattr__(self, "samples", samples)


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


def read_log(path: str | PathLike[str]) -> Iterator[Entry]:
    """The entries of one log. A last line without an end was torn by a kill: it is left out.

    Raises:
        ValueError: A line is not an entry; it names file and line.
    """
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = Entry(**json.loads(line))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {number}: not an entry of a log: {error}") from None
            yield entry
