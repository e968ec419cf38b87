"""What the integration tests share: engines that may be missing, processes that must not stay."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL
from typing import TypeVar

import pytest

Found = TypeVar("Found")

MARK = "ELASTIC_SAMPLER_TEST_PROCESS"
"""A variable that each started process has, and whatever it starts inherits."""


def need(condition: object, reason: str) -> None:
    """Skip the test if an engine is missing; fail it where CI has installed all engines."""
    if condition:
        return
    if os.environ.get("ELASTIC_SAMPLER_ENGINES") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class Process:
    """A running command; its output, both streams, goes to a file."""

    name: str
    popen: subprocess.Popen[bytes]
    log: Path
    mark: str

    @property
    def output(self) -> str:
        """What it and its children have said so far."""
        return self.log.read_text(errors="replace")

    def family(self) -> list[int]:
        """The processes that it started, directly or not, orphans too. It is none of them."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # it ended meanwhile, or is another user's
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return [pid for pid in found if pid != self.popen.pid]

    def kill(self) -> None:
        """SIGKILL, first for itself, so that it cannot tell its children; then for them."""
        self.popen.kill()
        self.popen.wait()
        while family := self.family():
            for pid in family:
                with suppress(ProcessLookupError):
                    os.kill(pid, SIGKILL)

    def wait(self, seconds: float = 60) -> int:
        """Its exit code. The test fails when that takes too long."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} still runs after {seconds} s; its output:\n{self.output}")


@dataclass(frozen=True)
class Processes:
    """Starts processes, and ends them and all that they started with the test."""

    directory: Path
    started: list[Process] = field(default_factory=list)

    def start(
        self, name: str, command: Sequence[str | Path], environ: Mapping[str, str] | None = None
    ) -> Process:
        """Run a command in the test's directory, with more variables if need be."""
        mark, log = uuid.uuid4().hex, self.directory / f"{name}.txt"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.directory,
                env={**os.environ, **(environ or {}), MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(Process(name, popen, log, mark))
        return self.started[-1]

    def wait_for(
        self, what: str, look: Callable[[], Found | None], *, seconds: float = 60
    ) -> Found:
        """What `look` finds, as soon as it finds anything.

        The test fails when that takes too long, or when a process has ended meanwhile, unless the
        test killed it.
        """
        end = time.monotonic() + seconds
        while (found := look()) is None:
            codes = {process.name: process.popen.poll() for process in self.started}
            ended = {name: code for name, code in codes.items() if code not in (None, -SIGKILL)}
            if ended or time.monotonic() > end:
                said = "\n".join(f"--- {p.name}:\n{p.output}" for p in self.started)
                why = f"ended, with exit codes: {ended}" if ended else f"nothing in {seconds} s"
                pytest.fail(f"waiting for {what}: {why}\n{said}")
            time.sleep(0.05)
        return found


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Processes that do not outlive the test."""
    need(sys.platform == "linux", "the processes that an engine leaves are found through /proc")
    running = Processes(tmp_path)
    try:
        yield running
    finally:
        for process in running.started:
            process.kill()
