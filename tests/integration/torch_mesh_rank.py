"""One of eight processes with a gloo group and device meshes; prints what it found, as JSON.

usage: torch_mesh_rank.py RANK DIRECTORY
"""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    Nearness,
    SampleLog,
    World,
    WorldRefusedError,
)

RANK, DIRECTORY = int(sys.argv[1]), Path(sys.argv[2])
N, G = 100, 8


def pair(world: World) -> list[int]:
    return [world.rank, world.size]


def told(ask: Callable[[], object]) -> str:
    """What is refused, and how."""
    try:
        return repr(ask())
    except (TypeError, ValueError, WorldRefusedError) as error:
        return f"{type(error).__name__}: {error}"


def groups() -> set[str]:
    return set(dist.distributed_c10d._world.pg_names.values())


def worlds() -> dict[str, Any]:
    pp_dp_tp = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    hsdp = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicate", "shard", "tp"))
    flat = hsdp["replicate", "shard"]._flatten("batch")
    lonely = init_device_mesh("cpu", (1, 8), mesh_dim_names=("dp", "tp"))
    nameless = DeviceMesh("cpu", list(range(8)))
    half = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
    members: Any = dist.new_group([5, 3, 1])
    everybody: Any = dist.group.WORLD

    before = groups()
    found = {
        "dp": pair(World.from_device_mesh(pp_dp_tp, "dp")),
        "group of dp": pair(World.from_process_group(pp_dp_tp.get_group("dp"))),
        "slice": pair(World.from_device_mesh(pp_dp_tp["dp"])),
        "replicate, shard": pair(World.from_device_mesh(hsdp, "replicate", "shard")),
        "shard, replicate": pair(World.from_device_mesh(hsdp, "shard", "replicate")),
        "flat": pair(World.from_device_mesh(flat, "batch")),
        "everybody": pair(World.from_process_group(everybody)),
        "size 1": pair(World.from_device_mesh(lonely, "dp")),
        "nameless": pair(World.from_device_mesh(nameless)),
        "source": World.from_device_mesh(hsdp, "replicate", "shard").source,
        "group's source": World.from_process_group(pp_dp_tp.get_group("dp")).source,
        "half": told(lambda: pair(World.from_device_mesh(half, "dp"))),
        "members": told(lambda: pair(World.from_process_group(members))),
        "no group": told(lambda: World.from_process_group(None)),  # type: ignore[arg-type]
        "no axes": told(lambda: World.from_device_mesh(pp_dp_tp)),
        "no such axis": told(lambda: World.from_device_mesh(pp_dp_tp, "dp", "ep")),
        "axis twice": told(lambda: World.from_device_mesh(pp_dp_tp, "dp", "dp")),
    }
    assert before == groups(), "a group was made"
    assert World.from_device_mesh(hsdp, "shard").nearness is Nearness.EXPLICIT
    assert World.from_process_group(hsdp.get_group("tp")).nearness is Nearness.EXPLICIT
    found["share"] = shared(pp_dp_tp)
    found["pickled"] = pickled(pp_dp_tp)
    return found


def shared(mesh: DeviceMesh) -> list[int]:
    """What this rank trains of an epoch; one rank of each tensor and pipeline group logs it."""
    sampler = ElasticDistributedSampler(
        N, shuffle=True, seed=0, tail="uneven", world=partial(World.from_device_mesh, mesh, "dp")
    )
    batches = ElasticBatchSampler(sampler, G)
    pp, _, tp = mesh.get_coordinate() or ()
    trained: list[int] = []
    with SampleLog(DIRECTORY / f"{RANK}.jsonl", sampler.world) as log:
        for step, batch in enumerate(batches.track(batches)):
            trained += batch
            if pp == tp == 0:
                log.write(0, step, batch)
    return trained


def pickled(mesh: DeviceMesh) -> list[int]:
    """A group cannot be pickled; what it answered can."""
    sampler = ElasticDistributedSampler(
        N, shuffle=False, world=lambda: World.from_process_group(mesh.get_group("dp"))
    )
    assert sampler.world.size == 2
    return pair(pickle.loads(pickle.dumps(sampler)).world)


if __name__ == "__main__":
    store = f"file://{DIRECTORY}/group"
    dist.init_process_group(
        "gloo", init_method=store, rank=RANK, world_size=8, timeout=timedelta(seconds=60)
    )
    print(json.dumps(worlds()))
    dist.destroy_process_group()
