"""`RANK`, `WORLD_SIZE` and `LOCAL_RANK`: torchrun, and whoever speaks its language.

With `LOCAL_RANK` a launcher of processes has set them (torchrun, DeepSpeed, Composer, Ray Train's
TorchTrainer, Accelerate, Azure ML). Without it they are only a hint: set by hand, or on platforms
that count *nodes* by these names (Kubeflow's PyTorchJob v1, PAI-DLC, Vertex AI). `LOCAL_RANK` by
itself says nothing, and is never used as a rank.

Source: https://pytorch.org/docs/stable/elastic/run.html#environment-variables
"""

from __future__ import annotations

import os

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair RANK and WORLD_SIZE, None if neither is set."""
    nearness = Nearness.LAUNCHER if os.environ.get("LOCAL_RANK") else Nearness.HINT
    return World.from_variables("RANK", "WORLD_SIZE", nearness=nearness)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["RANK", "WORLD_SIZE", "LOCAL_RANK"]
