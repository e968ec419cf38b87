"""Flux: `FLUX_TASK_RANK` and `FLUX_JOB_SIZE`.

Reads: the pair, in every task of `flux run` and `flux submit`, from flux-core 0.15 on. A batch
script (`flux batch`, `flux alloc`) has neither: Flux takes them, and the variables of PMI and
Slurm, out of the environment there. Flux is a scheduler: other launchers may run inside its tasks.

Source: https://flux-framework.readthedocs.io/projects/flux-core/en/latest/man7/flux-environment.html
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
