"""mpi4py: `MPI.COMM_WORLD`, when the program has initialised MPI and it has several processes.

Reads: `COMM_WORLD` of mpi4py 3 and 4, only between MPI_Init and MPI_Finalize (outside of them
asking kills the process, without an exception), and only at size > 1: another MPI's mpiexec, or
srun without PMI, makes lone processes, so size 1 is no evidence. Imports and initialises nothing.

Source: https://mpi4py.readthedocs.io/en/stable/reference/mpi4py.MPI.html
"""

from __future__ import annotations

import sys
from types import ModuleType

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """COMM_WORLD's rank and size, None if it is not alive or has one process."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not _alive(mpi) or mpi.COMM_WORLD.Get_size() == 1:
        return None
    comm = mpi.COMM_WORLD
    return World(comm.Get_rank(), comm.Get_size(), "mpi4py, COMM_WORLD", Nearness.LIVE)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["mpi4py (COMM_WORLD, if initialised)"]


@hookimpl
def elastic_sampler_notes() -> list[str]:
    """Why an mpi4py that is imported is not believed."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None:
        return []
    if not _alive(mpi):
        return ["mpi4py is imported, but MPI is not initialised, or finalised already"]
    if mpi.COMM_WORLD.Get_size() == 1:
        return [
            "COMM_WORLD has one process, which proves nothing: under another MPI's mpiexec, and "
            "under srun without --mpi, every process is alone in it"
        ]
    return []


def _alive(mpi: ModuleType) -> bool:
    return bool(mpi.Is_initialized() and not mpi.Is_finalized())
