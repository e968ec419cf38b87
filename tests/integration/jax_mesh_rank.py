"""One of four processes of jax.distributed, with two CPU devices each; prints what it found.

usage: jax_mesh_rank.py PORT RANK
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    Nearness,
    World,
    WorldRefusedError,
)

PORT, RANK = int(sys.argv[1]), int(sys.argv[2])
N, G = 100, 8


def told(ask: Callable[[], World]) -> Any:
    """The pair, or what is refused, and how."""
    try:
        world = ask()
        return [world.rank, world.size]
    except (ValueError, WorldRefusedError) as error:
        return f"{type(error).__name__}: {error}"


def both(mesh: Mesh, *axes: str) -> list[Any]:
    """What the mesh says, and what a sharding of a batch along these axes says."""
    sharding = NamedSharding(mesh, P(axes))
    return [
        told(lambda: World.from_jax_mesh(mesh, *axes)),
        told(lambda: World.from_jax_sharding(sharding, (24, 64))),
        told(lambda: World.from_jax_sharding(NamedSharding(mesh, P(None, axes)), (3, 24), axis=1)),
    ]


def worlds() -> dict[str, Any]:
    devices = np.array(jax.devices())
    data_model = jax.make_mesh((2, 4), ("data", "model"))
    sharding = NamedSharding(data_model, P("data"))
    assert World.from_jax_mesh(data_model, "data").nearness is Nearness.EXPLICIT
    detected = World.detect()
    assert detected.nearness is Nearness.LIVE
    return {
        "detected": [detected.rank, detected.size],
        "data 2, model 4": both(data_model, "data"),
        "data 4, model 2": both(jax.make_mesh((4, 2), ("data", "model")), "data"),
        "data 8": both(jax.make_mesh((8,), ("data",)), "data"),
        "model 8": both(jax.make_mesh((1, 8), ("data", "model")), "data"),
        "replica 2, shard 2": both(
            jax.make_mesh((2, 2, 2), ("replica", "shard", "model")), "replica", "shard"
        ),
        # Interleaved: each process holds two places that are not neighbours.
        "interleaved": both(Mesh(devices[[0, 2, 4, 6, 1, 3, 5, 7]], ("data",)), "data"),
        "one axis": told(lambda: World.from_jax_mesh(jax.make_mesh((8,), ("data",)))),
        "replicated": told(
            lambda: World.from_jax_sharding(NamedSharding(data_model, P()), (8, 64))
        ),
        # Process 0 holds the places 0 and 1, process 1 holds 1 and 2, …
        "overlapping": both(
            Mesh(devices[[[0, 7], [1, 2], [3, 4], [5, 6]]], ("data", "model")), "data"
        ),
        "unequal": both(Mesh(devices[[0, 1, 2]], ("data",)), "data"),
        "no axes": told(lambda: World.from_jax_mesh(data_model)),
        "no such axis": told(lambda: World.from_jax_mesh(data_model, "date")),
        "no such dimension": told(lambda: World.from_jax_sharding(sharding, (8, 64), axis=2)),
        "source": World.from_jax_mesh(data_model, "data").source,
        "sharding's source": World.from_jax_sharding(sharding, (24, 64)).source,
        "arrays": [
            arrays(jax.make_mesh(shape, ("data", "model"))) for shape in [(2, 4), (4, 2), (8, 1)]
        ],
    }


def arrays(mesh: Mesh) -> list[list[int]]:
    """The samples of each step of an epoch, as the whole job sees them in a global array."""
    sampler = ElasticDistributedSampler(
        N, shuffle=True, seed=0, tail="fill", world=World.from_jax_mesh(mesh, "data")
    )
    sharded, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    found = []
    for batch in ElasticBatchSampler(sampler, G):
        array = jax.make_array_from_process_local_data(sharded, np.array(batch))
        assert (G,) == array.shape
        whole = jax.jit(lambda x: x, out_shardings=everywhere)(array)
        found.append(np.asarray(whole.addressable_data(0)).tolist())
    return found


if __name__ == "__main__":
    address = f"127.0.0.1:{PORT}"
    jax.config.update("jax_num_cpu_devices", 2)
    jax.distributed.initialize(address, 4, RANK, coordinator_bind_address=address)
    print(json.dumps(worlds()))
    jax.distributed.shutdown()
