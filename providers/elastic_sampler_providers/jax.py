"""JAX: `jax.distributed`, when the program has initialised it.

Reads: process_id and num_processes of JAX's distributed state, from JAX 0.2.25 on. The public
`jax.process_index()` starts the backend, and waits for all processes; called before
`jax.distributed.initialize()` it makes that fail. So it is asked last, and only after it. Imports
and initialises nothing.

Source: https://docs.jax.dev/en/latest/multi_process.html
"""

from __future__ import annotations

import sys

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """This process's index among JAX's, None before `jax.distributed.initialize()`."""
    internal = sys.modules.get("jax._src.distributed")
    public = sys.modules.get("jax.distributed")
    if internal is not None:
        state = internal.global_state
        if state.client is None:
            return None
        rank, size = state.process_id, state.num_processes
    elif public is not None and public.is_initialized():
        rank, size = sys.modules["jax"].process_index(), sys.modules["jax"].process_count()
    else:
        return None
    return World(rank, size, "jax.distributed", Nearness.LIVE)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["jax.distributed (if initialised)"]
