"""An elastic job in miniature: real processes, a real kill, and an audit that counts every line.

Four processes share an epoch over the lines of a file. One is killed between two checkpoints, three
carry on from the last one, two more join, and five finish. The parent plays the launcher: it
starts the ranks, lets them step together, keeps the checkpoint and notices who is gone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any, TextIO

from .auditing import Audit, audit, counted
from .demo_view import Bar, report
from .sample_log import Entry, read_log

FEWEST_LINES = 40
EVERY = 5
"""Steps between two checkpoints."""
PATIENCE = 60
"""Seconds until a rank that does not answer is given up."""


class DemoError(Exception):
    """The demo cannot run, or a rank did something unexpected: one line says what."""


class RankGoneError(Exception):
    """A rank's process has ended: its pipe is closed."""


@dataclass(frozen=True)
class Phase:
    """What happened at one world size.

    Attributes:
        ranks: Number of ranks.
        pids: Their processes, in the order of ranks.
        start: Position at which it began.
        stop: Position that the last checkpoint of it covers.
        steps: Steps that the checkpoint covers.
        redone: Steps that were lost with the kill, and are done again.
    """

    ranks: int
    pids: tuple[int, ...]
    start: int
    stop: int
    steps: int
    redone: int = 0


@dataclass(frozen=True)
class Outcome:
    """What the demo came to.

    Attributes:
        path: The file.
        num_lines: How many lines it has.
        phases: What happened at each world size.
        killed: The rank and pid that were killed, and the code that its process ended with.
        entries: The log entries that count.
        audit: What the logs say.
    """

    path: Path
    num_lines: int
    phases: tuple[Phase, ...]
    killed: tuple[int, int, int]
    entries: tuple[Entry, ...]
    audit: Audit


class _Process:
    """A rank's process, and the pipe to it."""

    def __init__(self, directory: Path, number: int, path: Path, seed: int) -> None:
        self.log = directory / f"process-{number}.jsonl"
        self._errors = directory / f"process-{number}.txt"
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ELASTIC_SAMPLER_")}
        with self._errors.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-c", "from elastic_sampler.demo_rank import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=directory,  # where no module can be in the way
                env=clean,
                text=True,
            )
        self.pid = self._popen.pid
        self.tell([str(path), str(self.log), seed])

    def tell(self, order: Any) -> None:
        """Send an order; whether anybody is there shows when the answer is awaited."""
        if self._popen.stdin is not None:
            with suppress(BrokenPipeError):
                self._popen.stdin.write(json.dumps(order) + "\n")
                self._popen.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The answer to the last order."""
        stdout: TextIO | Any = self._popen.stdout
        alarm = threading.Timer(PATIENCE, self._popen.kill)
        alarm.start()
        try:
            line = stdout.readline()
        finally:
            alarm.cancel()
        if not line:
            raise RankGoneError
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> int:
        """SIGKILL, and the code that the process ended with."""
        self._popen.kill()
        return self._popen.wait(PATIENCE)

    def close(self) -> None:
        """End the process: it ends with its input."""
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        try:
            self._popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    @property
    def errors(self) -> str:
        """The last line that it complained with."""
        return (self._errors.read_text(errors="replace").strip().splitlines() or ["nothing"])[-1]


@dataclass
class _Job:
    """The launcher's side: its processes, and the checkpoint file."""

    directory: Path
    path: Path
    num_lines: int
    seed: int
    say: Any
    processes: list[_Process] = field(default_factory=list)
    started: list[_Process] = field(default_factory=list)
    step: int = 0  # of the job, as the last checkpoint says
    run: int = -1

    @property
    def checkpoint(self) -> dict[str, Any] | None:
        """The state that the job would resume from."""
        file = self.directory / "checkpoint.json"
        state: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint: whoever is killed in here leaves the previous one."""
        unfinished = self.directory / "checkpoint.tmp"
        unfinished.write_text(json.dumps(state))
        unfinished.replace(self.directory / "checkpoint.json")

    def start(self, count: int) -> None:
        """Start so many processes more."""
        for _ in range(count):
            number = len(self.started)
            self.processes.append(_Process(self.directory, number, self.path, self.seed))
            self.started.append(self.processes[-1])

    def together(self, order: dict[str, Any], *, ranked: bool = False) -> list[dict[str, Any]]:
        """Give all ranks an order, and wait for all: they are in lock-step."""
        for rank, process in enumerate(self.processes):
            process.tell(order | {"rank": rank} if ranked else order)
        return [process.hear() for process in self.processes]

    def play(self, steps: int | None, *, kill: int | None = None) -> tuple[Phase, int]:
        """Play so many steps at this world size, or to the end; `kill` a rank after them."""
        state = self.checkpoint
        start = 0 if state is None else state["position"]
        self.run += 1
        begin = {"size": len(self.processes), "run": self.run, "state": state}
        self.together(begin, ranked=True)
        pids = tuple(process.pid for process in self.processes)
        done, saved, code = 0, 0, 0
        while steps is None or done < steps:
            answers = self.together({"step": self.step + done})
            if answers[0]["done"]:
                break
            done, state = done + 1, answers[0]["state"]
            self.say(state["position"], len(self.processes))
            if (
                done % EVERY == 0
                or (steps == done and kill is None)
                or state["position"] >= self.num_lines
            ):
                self.save(state)
                saved = done
        lost = 0
        if kill is not None:
            code = self.processes[kill].kill()
            self._notice(self.step + done)
            lost = done + 1 - saved
        self.step += saved
        stop = (self.checkpoint or {"position": 0})["position"]
        return Phase(len(pids), pids, start, stop, saved, lost), code

    def _notice(self, step: int) -> None:
        """The next step fails, because a rank is gone; the others have done theirs in vain."""
        for process in self.processes:
            process.tell({"step": step})
        for process in list(self.processes):
            try:
                process.hear()
            except RankGoneError:
                self.processes.remove(process)

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.started:
            process.close()


def play(path: Path, seed: int, say: Any) -> Outcome:
    """Run the job over a file; `say(position, ranks)` is called after each step.

    Raises:
        DemoError: The file cannot be used, or a rank failed.
    """
    lines = _lines_of(path)
    with tempfile.TemporaryDirectory(prefix="elastic-sampler-demo-") as name:
        job = _Job(Path(name), path.resolve(), lines, seed, say)
        try:
            job.start(4)
            # Two thirds of the epoch in two phases; the kill is between two checkpoints.
            four, code = job.play(lines // 12 // EVERY * EVERY + EVERY - 2, kill=2)
            three, _ = job.play(max(1, lines // 9))
            job.start(2)
            five, _ = job.play(None)
            logs = [process.log for process in job.started]
            entries = [entry for log in logs for entry in read_log(log)]
            return Outcome(
                path,
                lines,
                (four, three, five),
                (2, four.pids[2], code),
                tuple(counted(entries)),
                audit(entries, lines),
            )
        except RankGoneError:
            errors = "; ".join(process.errors for process in job.started)
            raise DemoError(f"a rank ended that should not have: {errors}") from None
        finally:
            job.close()


def _lines_of(path: Path) -> int:
    try:
        with path.open("rb") as file:
            count = sum(1 for _ in file)
    except OSError as error:
        raise DemoError(f"cannot read {path}: {error.strerror or error}") from None
    if count < FEWEST_LINES:
        raise DemoError(
            f"{path} has {count} lines: the demo needs at least {FEWEST_LINES}, so that each phase "
            f"has some; name another file with --file"
        )
    return count


def _licence() -> Path:
    """The licence text that ships with this package."""
    try:
        found = [file for file in files("elastic-sampler") or [] if file.name == "LICENSE"]
    except PackageNotFoundError:
        found = []
    if not found:
        raise DemoError("the licence text of elastic-sampler is not installed: name a --file")
    return Path(str(found[0].locate()))


def run(path: Path | None, seed: int = 0) -> int:
    """Run the demo and show it; returns the exit code, 0 if every line was trained exactly once."""
    try:
        path = _licence() if path is None else path
        lines = _lines_of(path)
        print(f"{path.name}: {lines} lines, shuffled, dealt to ranks one line a step.\n")
        with Bar(lines) as bar:
            outcome = play(path, seed, bar.show)
    except DemoError as error:
        print(f"elastic-sampler demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted: all ranks were stopped", file=sys.stderr)
        return 130
    for line in report(outcome, color=sys.stdout.isatty() and "NO_COLOR" not in os.environ):
        print(line)
    return 0 if outcome.audit.exact else 1
