"""A real Slurm of two nodes: steps, shells that srun did not start, launchers inside of steps."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, free_port, need
from integration.slurm import Slurm, start

from elastic_sampler import audit

RANK = Path(__file__).with_name("slurm_rank.py")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """The cluster, which does not outlive the tests of this module."""
    daemons = Processes(tmp_path_factory.mktemp("slurm"))
    try:
        yield start(daemons)
    finally:
        for daemon in reversed(daemons.started):
            daemon.kill()


def rank(directory: Path, run: int = 0, steps: int = 0) -> list[str]:
    return [sys.executable, str(RANK), str(directory), str(run), str(steps)]


def said(directory: Path, run: int = 0) -> list[dict[str, Any]]:
    """What the processes of a run said, by rank."""
    found = [json.loads(path.read_text()) for path in directory.glob(f"said-{run}-*.json")]
    return sorted(found, key=lambda one: (one["rank"], one["node"] or ""))


def worlds(directory: Path, run: int = 0) -> list[tuple[int, int]]:
    return [(one["rank"], one["size"]) for one in said(directory, run)]


def assert_exact(directory: Path) -> None:
    report = audit(directory.glob("log-*.jsonl"), 1000)
    assert report.exact, str(report)
    assert 0 == report.redone


def test_the_tasks_of_a_step_on_two_nodes_share_an_epoch(
    slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    slurm.run(processes, "step", ["srun", "-n", "4", "-N", "2", *rank(tmp_path)])
    assert [(number, 4) for number in range(4)] == worlds(tmp_path)
    assert {"n1", "n2"} == {one["node"] for one in said(tmp_path)}
    assert "SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=4" == said(tmp_path)[0]["source"]
    assert_exact(tmp_path)


def test_steps_of_other_sizes_in_one_allocation_go_on_with_the_epoch(
    slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    sizes = [(4, "srun -n 4 -N 2"), (2, "srun -n 2 -N 1"), (3, "srun --preserve-env -n 3")]
    lines = [
        f"{srun} {' '.join(rank(tmp_path, run, steps))}"
        for run, (steps, (_, srun)) in enumerate(zip((100, 50, 0), sizes, strict=True))
    ]
    slurm.batch(processes, "\n".join(lines), "-n", "4", "-N", "2")
    for run, (size, _) in enumerate(sizes):
        assert [(number, size) for number in range(size)] == worlds(tmp_path, run)
    assert_exact(tmp_path)


def test_a_batch_script_is_one_process_whatever_its_variables_say(
    slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    doctor = tmp_path / "doctor.txt"
    command = f"{sys.executable} -m elastic_sampler world > {doctor}"
    script = f'test "$SLURM_PROCID $SLURM_NTASKS" = "0 4"\n{" ".join(rank(tmp_path))}\n{command}'
    slurm.batch(processes, script, "-n", "4", "-N", "2")
    assert [(0, 1)] == worlds(tmp_path)
    assert "no provider answered" in said(tmp_path)[0]["source"]
    assert "no srun started this" in doctor.read_text()
    assert_exact(tmp_path)


def test_the_interactive_step_is_one_process_and_what_srun_starts_in_it_is_not(
    slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    script = tmp_path / "typed.sh"  # salloc without a command runs the shell as such a step
    alone, ranks = rank(tmp_path, 7), ["srun", "-n", "4", *rank(tmp_path, 9)]
    script.write_text(
        f"#!/bin/sh -e\ntest $SLURM_STEP_ID = 4294967290\n{' '.join(alone)}\n{' '.join(ranks)}\n"
    )
    script.chmod(0o755)
    environ = slurm.environ({"SHELL": str(script)})
    job = processes.start("salloc", ["salloc", "-n", "4", "-N", "2"], environ)
    assert 0 == job.wait(), job.output
    assert [(0, 1)] == worlds(tmp_path, 7)
    assert "no provider answered" in said(tmp_path, 7)[0]["source"]
    assert [(number, 4) for number in range(4)] == worlds(tmp_path, 9)


def test_each_task_of_a_job_array_is_a_world_of_its_own(
    slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    for task in range(2):
        (tmp_path / f"{task}").mkdir()
    each = ["srun", "-n", "2", *rank(tmp_path / "$SLURM_ARRAY_TASK_ID")]
    slurm.batch(processes, " ".join(each), "-a", "0-1", "-n", "2", tasks=2)
    for task in range(2):
        assert [(0, 2), (1, 2)] == worlds(tmp_path / f"{task}")
        assert_exact(tmp_path / f"{task}")


@pytest.mark.parametrize("nodes", [1, 2])
def test_torchrun_inside_of_a_step_is_believed_and_not_the_step(
    nodes: int, slurm: Slurm, processes: Processes, tmp_path: Path
) -> None:
    need(find_spec("torch"), "needs torch: extra `test`")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    if nodes == 1:
        torchrun.append("--standalone")
    else:
        torchrun += [
            "--nnodes=2",
            "--rdzv-backend=c10d",
            "--rdzv-id=test",
            "--local-addr=127.0.0.1",
        ]
        torchrun.append(f"--rdzv-endpoint=127.0.0.1:{free_port()}")
    step = ["srun", "-n", str(nodes), "-N", str(nodes), *torchrun, *rank(tmp_path)[1:]]
    slurm.run(processes, "step", step, 120)
    size = 2 * nodes
    assert [(number, size) for number in range(size)] == worlds(tmp_path)
    assert f"RANK=0, WORLD_SIZE={size}" == said(tmp_path)[0]["source"]
    assert nodes == len({one["node"] for one in said(tmp_path)})
    assert_exact(tmp_path)


def mpi_said(directory: Path) -> list[str]:
    return sorted(path.read_text() for path in directory.glob("*.txt"))


@pytest.fixture
def mpich() -> Path:
    """The mpiexec of the mpich wheel, beside this interpreter."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    need(find_spec("mpi4py") and mpiexec.exists(), "needs pip install mpi4py mpich")
    return mpiexec


def test_a_step_without_pmi_makes_lone_mpi_processes_and_the_step_is_believed(
    slurm: Slurm, processes: Processes, tmp_path: Path, mpich: Path
) -> None:
    for mode, source in (
        ("--mpi=none", "SLURM_PROCID={}, SLURM_STEP_NUM_TASKS=3"),
        ("--mpi=pmi2", "mpi4py, COMM_WORLD"),
    ):
        logs = tmp_path / mode
        logs.mkdir()
        program = [sys.executable, str(RANK.with_name("mpi_rank.py")), str(logs), "initialised"]
        slurm.run(processes, mode, ["srun", mode, "-n", "3", "-N", "2", *program])
        assert [f"{number} of 3: {source.format(number)}" for number in range(3)] == mpi_said(logs)
        report = audit(logs.glob("*.jsonl"), 100)
        assert report.exact, str(report)


@pytest.mark.parametrize("launcher", ["slurm", "fork"])
def test_mpiexec_inside_of_an_allocation_is_believed_and_not_the_step_that_starts_it(
    launcher: str, slurm: Slurm, processes: Processes, tmp_path: Path, mpich: Path
) -> None:
    command = [str(mpich), "-launcher", launcher, "-n", "3", *rank(tmp_path)]
    slurm.batch(processes, " ".join(command), "-n", "3", "-N", "1")
    assert [(number, 3) for number in range(3)] == worlds(tmp_path)
    assert "PMI_RANK=0, PMI_SIZE=3" == said(tmp_path)[0]["source"]
    assert_exact(tmp_path)
