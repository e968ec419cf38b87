"""Open MPI's mpiexec: `OMPI_COMM_WORLD_RANK` and `OMPI_COMM_WORLD_SIZE`.

Reads: the pair, which Open MPI sets from version 1.3 on, in every process that its mpiexec starts.
`OMPI_COMM_WORLD_NODE_RANK` (a rank on this node) and `OMPI_UNIVERSE_SIZE` (slots) are not used.

Source: https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html
"""

from __future__ import annotations

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nearness=Nearness.MPI
    )


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"]
