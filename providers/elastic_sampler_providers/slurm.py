"""A Slurm step, which is what srun starts: `SLURM_PROCID` of `SLURM_STEP_NUM_TASKS`.

Reads: the pair, and `SLURM_STEP_ID`, which says that there is a step; in Slurm 22. A batch script
and the shell of salloc have `SLURM_PROCID=0` and `SLURM_NTASKS` (of the whole allocation), but no
step: each is one process. The interactive step of salloc has a number of its own kind.
`SLURM_NTASKS` is never a size: in a step that is smaller than its allocation it may be too large.

Source: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
"""

from __future__ import annotations

import os
import re

from elastic_sampler import Nearness, World, WorldRefusedError, hookimpl

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""From here on `SLURM_STEP_ID` is no number of a step: 0xFFFFFFFA, say, is the interactive one."""


@hookimpl
def elastic_sampler_world() -> World | None:
    """The step's rank and size, None in a process that srun did not start."""
    step, rank = os.environ.get("SLURM_STEP_ID", ""), os.environ.get("SLURM_PROCID", "")
    started = step or os.environ.get("SLURM_STEP_NUM_TASKS")
    # Outside of steps it is 0, or not there: another rank tells of a step that has been lost.
    if _is_special(step) or not (started or rank.strip("0")):
        return None
    if not re.fullmatch("[0-9]{1,18}", step):
        raise WorldRefusedError(
            f"SLURM_STEP_ID must be a plain decimal integer wherever SLURM_STEP_NUM_TASKS or a "
            f"SLURM_PROCID above 0 is set, got {step[:60]!r}: srun sets all three",
            Nearness.SCHEDULER,
        )
    world = World.from_variables(
        "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", nearness=Nearness.SCHEDULER
    )
    if world is None:
        raise WorldRefusedError(
            f"SLURM_STEP_ID={step} without SLURM_PROCID and SLURM_STEP_NUM_TASKS: srun sets all "
            f"three; set the others too, or unset it",
            Nearness.SCHEDULER,
        )
    return world


def _is_special(step: str) -> bool:
    return re.fullmatch("[0-9]{1,18}", step) is not None and int(step) >= FIRST_SPECIAL_STEP


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"]


@hookimpl
def elastic_sampler_notes() -> list[str]:
    """What is often mistaken for a rank or a world size here."""
    found = os.environ.get
    notes = []
    if found("SLURM_JOB_ID") and not found("SLURM_STEP_ID"):
        notes.append(
            "no srun started this: a batch script is one process, and so is salloc's shell"
        )
    elif _is_special(found("SLURM_STEP_ID", "")):
        notes.append("this is the interactive step, one process: ranks are what srun starts in it")
    tasks, step = found("SLURM_NTASKS"), found("SLURM_STEP_NUM_TASKS")
    if tasks and tasks != step:
        notes.append(f"SLURM_NTASKS={tasks} counts the tasks of the allocation")
    if found("SLURM_STEP_NUM_TASKS") == "1":
        notes.append("a step of one task proves nothing: whatever runs inside of it is believed")
    if found("SLURM_ARRAY_TASK_ID"):
        notes.append("SLURM_ARRAY_TASK_ID is no rank: each task of a job array is a job of its own")
    return notes
