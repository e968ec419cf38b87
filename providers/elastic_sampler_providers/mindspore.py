"""MindSpore: `RANK_ID` and `RANK_SIZE`, and `MS_ROLE`, which tells workers from the scheduler.

Reads: the pair, set by `msrun` (MindSpore 2.3 and newer) and by rank-table start-up. msrun runs the
same script in a scheduler process, with RANK_ID=0: it has no share of the data and is refused.

Source: https://www.mindspore.cn/tutorials/en/master/parallel/msrun_launcher.html
"""

from __future__ import annotations

import os

from elastic_sampler import Nearness, World, WorldRefusedError, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    role = os.environ.get("MS_ROLE")
    if role in ("MS_SCHED", "MS_PSERVER"):
        raise WorldRefusedError(
            f"MS_ROLE={role}: this process serves the workers, no share of the data is its own, "
            f"and RANK_ID is no rank here; iterate in workers only",
            Nearness.MPI,
        )
    world = World.from_variables("RANK_ID", "RANK_SIZE", nearness=Nearness.MPI)
    if world is None and role == "MS_WORKER":
        raise WorldRefusedError(
            "MS_ROLE=MS_WORKER without RANK_ID and RANK_SIZE: start workers with msrun, which sets "
            "them, or set both",
            Nearness.MPI,
        )
    return world


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["MS_ROLE", "RANK_ID", "RANK_SIZE"]
