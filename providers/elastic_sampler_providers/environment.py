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


NODE_LEVEL = {
    "SM_HOSTS": "SageMaker's SM_HOSTS counts hosts",
    "AWS_BATCH_JOB_NODE_INDEX": "AWS_BATCH_JOB_NODE_INDEX counts nodes",
    "AWS_BATCH_JOB_ARRAY_INDEX": "AWS_BATCH_JOB_ARRAY_INDEX numbers jobs of their own",
    "JOB_COMPLETION_INDEX": "JOB_COMPLETION_INDEX numbers pods, and has no size beside it",
    "TPU_WORKER_ID": "TPU_WORKER_ID counts the hosts of one slice",
    "TF_CONFIG": "TF_CONFIG describes a cluster of TensorFlow's",
    "PET_NNODES": "PET_* are arguments of torchrun, which has not run yet",
}
"""Variables of platforms that start one thing per node: no worlds, a launcher runs in them."""


@hookimpl
def elastic_sampler_notes() -> list[str]:
    """What is often mistaken for a rank or a world size."""
    found = os.environ.get
    rank, size, local = found("RANK"), found("WORLD_SIZE"), found("LOCAL_RANK")
    notes = []
    if rank and size and not local:
        notes.append(
            "without LOCAL_RANK they may count nodes (Kubeflow v1, PAI-DLC, Vertex AI): then start "
            "the processes with torchrun"
        )
    elif size and not rank:
        notes.append(
            "Lightning's own launcher sets WORLD_SIZE without RANK: iterate once its process group "
            "is there, or start with torchrun"
        )
    elif local and not rank:
        notes.append("LOCAL_RANK is never a rank")
    if found("MASTER_ADDR") and not (rank or size):
        notes.append("MASTER_ADDR starts nothing: `accelerate launch --cpu`, say, is one process")
    platform = [why for name, why in NODE_LEVEL.items() if found(name)]
    return [*notes, *(f"{why}: no world, unless a launcher starts processes" for why in platform)]
