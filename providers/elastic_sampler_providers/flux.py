"""Flux: `FLUX_TASK_RANK` and `FLUX_JOB_SIZE`.

Reads: the pair, in every task that flux-core starts (`flux run`, `flux submit`). A batch
script (`flux batch`, `flux alloc`) has neither: Flux takes them, and the variables of PMI and
Slurm, out of the environment there. Flux is a scheduler: other launchers may run inside its tasks.

Source: https://github.com/flux-framework/flux-core/blob/4a5e79f/doc/man7/flux-environment.rst
"""

from __future__ import annotations

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables("FLUX_TASK_RANK", "FLUX_JOB_SIZE", nearness=Nearness.SCHEDULER)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"]
