"""PMI: `PMI_RANK` and `PMI_SIZE`, the names that several launchers share.

Reads: the pair, set by Hydra (mpiexec of MPICH 3 to 5, Intel MPI 2019 and newer, MVAPICH2), by
`srun --mpi=pmi2`, by PALS and by Flux. `PMIX_RANK` has no size beside it and is never a world.

Source: https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md
"""

from __future__ import annotations

import os

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables("PMI_RANK", "PMI_SIZE", nearness=Nearness.PMI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["PMI_RANK", "PMI_SIZE"]


@hookimpl
def elastic_sampler_notes() -> list[str]:
    """PMIx gives a rank alone."""
    if os.environ.get("PMIX_RANK"):
        return ["PMIX_RANK is no world: PMIx sets no size beside it"]
    return []
