"""The demo: real processes, a real kill, every line exactly once, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from select import select
from typing import Any

import pytest

from elastic_sampler.cli import main
from elastic_sampler.demo import DemoError, play
from elastic_sampler.demo_view import report

COMMAND = [sys.executable, "-m", "elastic_sampler", "demo"]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    """A file with awkward bytes, empty lines and no newline at its end."""
    path = tmp_path / "data.bin"
    path.write_bytes(b"\n".join(b"%d \xff\x00 \r word" % i if i % 7 else b"" for i in range(101)))
    return path


def test_every_line_is_trained_exactly_once_by_real_processes_of_which_one_was_killed(
    lines: Path,
) -> None:
    shown: list[tuple[int, int]] = []
    outcome = play(lines, 3, lambda position, ranks: shown.append((position, ranks)))

    assert [4, 3, 5] == [phase.ranks for phase in outcome.phases]
    four, three, five = (phase.pids for phase in outcome.phases)
    rank, pid, code = outcome.killed
    assert (four[rank], -signal.SIGKILL) == (pid, code)
    assert tuple(other for other in four if other != pid) == three == five[:3]
    assert 6 == len({*four, *five})
    assert not any(Path(f"/proc/{pid}").exists() for pid in {*four, *five})

    trained = Counter(sample for entry in outcome.entries for sample in entry.samples)
    assert set(range(101)) == set(trained)
    assert trained.total() - 101 < 5
    assert outcome.audit.exact
    assert outcome.phases[0].redone > 0
    assert outcome.audit.redone >= 3 * outcome.phases[0].redone
    assert 101 == outcome.phases[-1].stop == shown[-1][0]
    assert [phase.stop for phase in outcome.phases[:2]] == [
        phase.start for phase in outcome.phases[1:]
    ]
    for color in (False, True):
        for told in report(outcome, color=color):
            assert len(re.sub("\x1b.*?m", "", told)) <= 80, told


def test_the_command_shows_what_happened_and_needs_no_file(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('a module that is in the way')")
    command = [str(Path(sys.executable).with_name("elastic-sampler")), "demo"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)

    assert (0, "") == (ran.returncode, ran.stderr)
    assert "LICENSE: " in ran.stdout
    assert "exactly once" in ran.stdout
    assert re.search(r"Every line was trained exactly once: (\d+) of \1 lines", ran.stdout)
    assert "\x1b" not in ran.stdout and "\r" not in ran.stdout


@pytest.mark.parametrize("made", ["missing", "directory", "empty", "short"])
def test_a_file_that_cannot_be_used_is_one_clear_line_and_exit_code_2(
    made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.txt"
    if made == "directory":
        path.mkdir()
    elif made != "missing":
        path.write_text("line\n" * (39 if made == "short" else 0))
    assert 2 == main(["demo", "--file", str(path)])

    (told,) = capsys.readouterr().err.splitlines()
    assert str(path) in told
    assert ("needs at least 40" in told) == (made in ("empty", "short"))
    with pytest.raises(DemoError):
        play(path, 0, print)


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes through /proc")
@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGKILL])
def test_ended_in_the_middle_it_leaves_no_process_behind(ends: signal.Signals) -> None:
    demo: Any = subprocess.Popen(
        [*COMMAND, "--file", __file__],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # some shells ignore it
    )
    try:
        assert "lines, shuffled" in demo.stdout.readline()
        ranks = children_of(demo.pid)
        os.kill(demo.pid, ends) if ends == signal.SIGKILL else os.killpg(demo.pid, ends)
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
        demo.communicate()

    assert ranks
    assert all(select([rank], [], [], 60)[0] for rank in ranks)  # readable when it has ended
    assert (130 if ends == signal.SIGINT else -signal.SIGKILL) == demo.returncode
    assert ("all ranks were stopped" in errors) == (ends == signal.SIGINT)
    assert "Traceback" not in errors


def children_of(pid: int) -> list[int]:
    """File descriptors of the processes that a process has started, as soon as it has any."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    deadline = time.monotonic() + 60
    while not (found := children.read_text().split()):
        assert time.monotonic() < deadline
    return [os.pidfd_open(int(child)) for child in found]
