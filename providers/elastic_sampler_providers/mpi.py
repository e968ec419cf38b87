"""MPI: an initialised mpi4py, and the pairs that Open MPI, MPICH and Intel MPI set.

Reads: `MPI.COMM_WORLD` of mpi4py 3 and 4, only between MPI_Init and MPI_Finalize (outside of them
asking kills the process), and only at size > 1: the wrong mpiexec makes N lone processes, so size
1 is no evidence. Then `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE` (Open MPI 1.3 and newer),
then `PMI_RANK` and `PMI_SIZE` (Hydra: MPICH 3 to 5 and Intel MPI; `srun --mpi=pmi2`). `PMIX_RANK`
has no size beside it and is never a world.

Sources: https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
https://mpi4py.readthedocs.io/en/stable/reference/mpi4py.MPI.html
https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
"""

from __future__ import annotations

import sys

from elastic_sampler import Nearness, World, WorldRefusedError, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """COMM_WORLD's rank and size, else those of the launcher's variables."""
    return _live() or _launched()


def _live() -> World | None:
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return None
    comm = mpi.COMM_WORLD
    if comm.Get_size() == 1:
        return None
    return World(comm.Get_rank(), comm.Get_size(), "mpi4py, COMM_WORLD", Nearness.LIVE)


def _launched() -> World | None:
    own = World.from_variables(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nearness=Nearness.MPI
    )
    if own and own.size > 1:
        return own
    shared = World.from_variables("PMI_RANK", "PMI_SIZE", nearness=Nearness.PMI)
    if own and shared and shared.size > 1:
        raise WorldRefusedError(
            f"{own.source}, but {shared.source}: an mpiexec that makes lone processes, inside a "
            f"launcher that says more",
            Nearness.MPI,
        )
    return own or shared


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return [
        "mpi4py (COMM_WORLD, if initialised)",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "PMI_RANK",
        "PMI_SIZE",
    ]
