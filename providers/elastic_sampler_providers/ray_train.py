"""Ray Train: the context of a training function, the only source without a torch trainer.

Reads: `ray.train.get_context()`, in a process where the program has imported `ray.train`, with
Train V2 (the default of current Ray 2). It raises on the driver. The older context answers 0 of 1
outside of a job, too, and is not asked: `TorchTrainer` sets `RANK` and `WORLD_SIZE` there.

Source: https://docs.ray.io/en/latest/train/api/doc/ray.train.v2.api.context.TrainContext.html
"""

from __future__ import annotations

import sys

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The context's world rank and size, None outside of a training function."""
    train = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
    except (RuntimeError, DeprecationWarning):  # the driver; a function of Ray Tune
        return None
    if type(context).__module__ == "ray.train.context":  # before V2
        return None
    rank, size = context.get_world_rank(), context.get_world_size()
    return World(rank, size, "ray.train, context", Nearness.LIVE)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["ray.train (the context of a training function)"]
