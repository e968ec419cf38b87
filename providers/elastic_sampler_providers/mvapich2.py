"""MVAPICH2's mpirun_rsh and mpiexec: `MV2_COMM_WORLD_RANK` and `MV2_COMM_WORLD_SIZE`.

Reads: the pair, of MVAPICH2 2. Its Hydra also sets `PMI_RANK` and `PMI_SIZE`, which agree.

Source: https://github.com/huggingface/accelerate/blob/16cb6eb/src/accelerate/utils/environment.py
"""

from __future__ import annotations

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", nearness=Nearness.MPI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"]
