"""torch.distributed: the default process group, when the program has initialised it.

Reads: `torch.distributed.get_rank()` and `get_world_size()`, from torch 1.0 on, only if torch was
imported and `is_initialized()`. Imports and initialises nothing.

Source: https://pytorch.org/docs/stable/distributed.html
"""

from __future__ import annotations

import sys

from elastic_sampler import Nearness, World, WorldRefusedError, hookimpl

READS = "torch.distributed (the default group, if initialised)"


@hookimpl
def elastic_sampler_world() -> World | None:
    """The default group's rank and size, None while there is no group."""
    dist = sys.modules.get("torch.distributed")
    # torch without distributed support has the module, and is_available() is False in it.
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    rank, size = dist.get_rank(), dist.get_world_size()
    if rank < 0:
        raise WorldRefusedError(
            f"torch.distributed says rank {rank} of {size}: this process is outside of the default "
            f"group, so no share of the data is its own",
            Nearness.LIVE,
        )
    return World(rank, size, "torch.distributed, default group", Nearness.LIVE)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return [READS]
