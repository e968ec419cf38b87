"""The command: what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from elastic_sampler import (
    ElasticDistributedSampler,
    SampleLog,
    World,
    hookimpl,
    register,
    unregister,
)
from elastic_sampler.cli import main


def test_python_m_elastic_sampler_is_the_command() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "elastic_sampler", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert f"elastic-sampler {version('elastic-sampler')}\n" == ran.stdout


def test_world_without_a_launcher_says_what_was_looked_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 0 == main(["world"])

    out = capsys.readouterr().out
    assert "This process is rank 0 of 1: no provider answered." in out
    for name in ("environment", "slurm", "static", "torch_distributed", "RANK", "PMI_SIZE"):
        assert name in out
    assert "*" not in out


def test_world_marks_the_winner_and_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert 0 == main(["world"])

    out = capsys.readouterr().out
    (winner,) = [line for line in out.splitlines() if line.startswith("*")]
    assert winner.split()[1] == "environment"
    assert "rank 0 of 2 (PMI_RANK=0, PMI_SIZE=2)" in out
    assert "rank 1 of 4: the nearest evidence is LAUNCHER: RANK=1, WORLD_SIZE=4." in out


def test_world_named_by_the_variable_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "2")
    monkeypatch.setenv("ELASTIC_SAMPLER_PROVIDER", "pmi")
    assert 0 == main(["world"])

    assert "rank 0 of 2: ELASTIC_SAMPLER_PROVIDER=pmi names" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE='4' without RANK"),
        (
            {"RANK": "1", "WORLD_SIZE": "4", "PMI_RANK": "0", "PMI_SIZE": "2"},
            "pmi says rank 0 of 2 .* but environment says rank 1 of 4",
        ),
        (
            {"ELASTIC_SAMPLER_PROVIDER": "slurmm"},
            "no provider is named 'slurmm'; known: environment",
        ),
        ({"ELASTIC_SAMPLER_PROVIDER": "pmi"}, "has no answer in this process; it looked at"),
    ],
)
def test_world_exits_with_1_and_a_clear_message_when_it_cannot_tell(
    environment: dict[str, str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert 1 == main(["world"])

    printed = capsys.readouterr()
    assert "environment" in printed.out  # every provider's answer is shown all the same
    assert re.search(f"^error: .*{told}", " ".join(printed.err.split()))


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, "no srun started this"),
        ({"SLURM_STEP_ID": "4294967290", "SLURM_NTASKS": "4"}, "this is the interactive step"),
        ({"SLURM_NTASKS": "4"}, "SLURM_NTASKS=4 counts the tasks of the allocation"),
        ({"SLURM_ARRAY_TASK_ID": "3"}, "each task of a job array is a job of its own"),
        (
            {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"},
            "a step of one task proves nothing",
        ),
        (
            {"WORLD_SIZE": "4", "LOCAL_RANK": "1"},
            "Lightning's own launcher sets WORLD_SIZE without",
        ),
        ({"RANK": "1", "WORLD_SIZE": "2"}, "without LOCAL_RANK they may count nodes"),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK is never a rank"),
        ({"MASTER_ADDR": "127.0.0.1"}, "MASTER_ADDR starts nothing"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK is no world"),
        ({"SM_HOSTS": "[]"}, "SM_HOSTS counts hosts: no world, unless a launcher starts processes"),
        ({"JOB_COMPLETION_INDEX": "1"}, "JOB_COMPLETION_INDEX numbers pods"),
    ],
)
def test_world_explains_what_lies(
    environment: dict[str, str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    main(["world"])

    printed = capsys.readouterr().out
    assert told in " ".join(printed.split())
    assert all(len(line) <= 100 for line in printed.splitlines())
    main(["world", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert any(told in note for found in said["providers"] for note in found["notes"])


@pytest.mark.parametrize("arguments", [["world"], ["world", "--json"]])
def test_world_asks_each_provider_once(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    class Counts:
        asked = 0

        @hookimpl
        def elastic_sampler_world(self) -> None:
            self.asked += 1

    provider = Counts()
    register(provider, "counts")
    try:
        assert 0 == main(arguments)
    finally:
        unregister("counts")

    assert 1 == provider.asked
    assert "counts" in capsys.readouterr().out


def test_world_in_json_is_for_machines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert 0 == main(["world", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (1, 4, "environment", None) == tuple(
        said[name] for name in ("rank", "size", "provider", "error")
    )
    (found,) = [row for row in said["providers"] if row["provider"] == "environment"]
    assert "LAUNCHER" == found["evidence"]
    assert {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"} == found["reads"]

    monkeypatch.delenv("RANK")
    assert 1 == main(["world", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["rank"] is said["size"] is said["provider"] is None
    assert "WORLD_SIZE='4' without RANK" in said["error"]

    for name in ("WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name)
    assert 0 == main(["world", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert (0, 1, None) == (said["rank"], said["size"], said["provider"])
    assert said["source"].startswith("no provider answered; looked at RANK")


def test_plan_prints_a_round_per_world_size_and_the_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = "--num-samples 1_000_003 --batch-size 12 --worlds 8:1000,6:500,7 --shuffle"
    assert 0 == main(["plan", *arguments.split()])

    lines = capsys.readouterr().out.splitlines()
    assert ["1", "8", "1,000", "12,000", "96,000"] == lines[1].split()
    assert ["3", "7", "10,334", "124,001", "1,000,003"] == lines[3].split()
    assert (
        "1,000,003 of 1,000,003 samples seen once, 4 repeated in the tail, 0 not seen."
    ) == lines[-1]


def test_plan_in_json_is_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "--num-samples 103 --worlds 4:10,3:24samples,5 --tail uneven --seed 3 --epoch 2"
    assert 0 == main(["plan", *arguments.split(), "--json"])

    found = json.loads(capsys.readouterr().out)
    assert [40, 64, 103] == [row["position_after"] for row in found["rounds"]]
    assert [8, 8, 8, 8, 7] == found["rounds"][-1]["samples_per_rank"]
    assert (103, 0, 0) == (
        found["seen_once"],
        found["repeated_in_the_tail"],
        found["not_seen"],
    )
    assert found["finished"]


def test_plan_of_a_trillion_samples_answers_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["plan", "--num-samples", "1000000000000", "--worlds", "8:5,512"])
    assert "0 not seen" in capsys.readouterr().out


def test_plan_says_what_was_not_reached(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["plan", "--num-samples", "100", "--worlds", "4:5"])
    assert "not finished: 80 samples are left for whoever resumes at" in capsys.readouterr().out

    assert 0 == main(["plan", "--num-samples", "100", "--worlds", "4,5,6"])
    assert "ended before the last 2 world sizes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("plan --worlds 8", "required: --num-samples"),
        ("plan --num-samples 9", "required: --worlds"),
        ("plan --num-samples ten --worlds 8", "--num-samples: invalid number value: 'ten'"),
        ("plan --num-samples -9 --worlds 8", "--num-samples: must be at least 0, got -9"),
        (f"plan --num-samples {2**62 + 1} --worlds 8", "--num-samples: must be at most 46116860"),
        ("plan --num-samples 9 --worlds 8:", "each part must be W, W:STEPS or .* got '8:'"),
        ("plan --num-samples 9 --worlds 0", "got '0'"),
        ("plan --num-samples 9 --worlds 8:-1", "got '8:-1'"),
        ("plan --num-samples 9 --worlds 8,,4", "got ''"),
        ("plan --num-samples 9 --worlds 8 --batch-size 0", "--batch-size: must be at least 1"),
        ("plan --num-samples 9 --worlds 8 --tail pad", "invalid choice: 'pad'"),
    ],
)
def test_bad_usage_exits_with_2_and_names_the_argument(
    arguments: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments.split())

    assert 2 == left.value.code
    assert re.search(told, capsys.readouterr().err)


def logged(directory: Path, n: int = 20) -> list[str]:
    """The logs of a job of two ranks that is resumed with three."""
    sampler = {rank: ElasticDistributedSampler(n, world=World(rank, 2)) for rank in range(2)}
    state: dict[str, Any] = {}
    for rank, dealt in sampler.items():
        with SampleLog(directory / f"0-{rank}.jsonl", World(rank, 2)) as log:
            for step, index in enumerate(islice(dealt, 5)):
                log.write(0, step, [index])
                if step == 3:
                    dealt.advance(4)
                    state = dealt.state_dict()
    for rank in range(3):
        resumed = ElasticDistributedSampler(n, world=World(rank, 3))
        resumed.load_state_dict(state)
        with SampleLog(directory / f"1-{rank}.jsonl", World(rank, 3), run=1) as log:
            for step, index in enumerate(resumed, 4):
                log.write(0, step, [index])
    return [str(path) for path in sorted(directory.iterdir())]


def test_audit_says_that_all_is_well_and_exits_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = logged(tmp_path)
    assert 0 == main(["audit", *logs, "--num-samples", "20"])
    assert (
        "epoch 0: 20 trained in 8 steps: exactly once\n2 lines redone after a resume\n"
        == capsys.readouterr().out
    )
    assert 0 == main(["audit", *logs, "--num-samples", "20", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["exact"]
    assert (20, 2) == (found["epochs"][0]["trained"], found["redone_lines"])


def test_audit_names_what_is_wrong_and_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = logged(tmp_path)
    with Path(logs[-1]).open("a") as log:
        log.write(
            'nonsense\n{"epoch": 0, "step": 2, "rank": 2, "world_size": 3, "samples": [99]}\n'
        )
    assert 1 == main(["audit", *logs[:-2], logs[-1], "--num-samples", "21"])

    printed = capsys.readouterr()
    assert f"{logs[-1]}, line 5: not an entry of a log" in printed.err
    for told in (
        "NOT exactly once; 5 lost, 1 foreign, 5 unequal steps",
        "  lost: 9, 12, 15, 18, 20",
        "  foreign: 99",
        "  epoch 0, step 4: nothing from ranks [1] of 3",
        "1 lines that are not entries of a log",
    ):
        assert told in printed.out


def test_audit_of_what_cannot_be_read_is_bad_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == main(["audit", str(tmp_path / "gone.jsonl"), "--num-samples", "20"])
    assert "gone.jsonl" in capsys.readouterr().err
    for wrong in (["--epochs", "a"], ["--num-samples", "-1"], ["--tail", "pad"]):
        with pytest.raises(SystemExit, match="2"):
            main(["audit", "x.jsonl", "--num-samples", "20", *wrong])
