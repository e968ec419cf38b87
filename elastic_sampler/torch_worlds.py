"""Data-parallel worlds of PyTorch's process groups and device meshes.

Ranks that differ only in tensor, pipeline or context parallelism must get the same samples: what
counts is the place along the data-parallel axes. Nothing is created here and no collective is
called: slicing or flattening a mesh may do the first.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from .errors import WorldRefusedError
from .world import Nearness, World

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup as ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh as DeviceMesh


def of_process_group(group: ProcessGroup) -> World:
    """As `World.from_process_group`."""
    import torch.distributed as dist

    if group is None:
        raise TypeError(
            "group must be a process group, got None: the default group is detected, leave world= "
            "out or pass torch.distributed.group.WORLD"
        )
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    if rank < 0:  # torch says -1 of both to a process that is not in the group
        raise _outside(dist.get_rank(), "process group")
    source = f"process group {group.group_name!r}, global rank {dist.get_rank()}"
    return World(rank, size, source, Nearness.EXPLICIT)


def of_device_mesh(mesh: DeviceMesh, axes: tuple[str, ...]) -> World:
    """As `World.from_device_mesh`."""
    names = mesh.mesh_dim_names or ()
    if not axes and mesh.ndim == 1:
        axes = names
    elif not axes or not set(axes) <= set(names) or len(set(axes)) < len(axes):
        raise ValueError(
            f"axes must name the data-parallel axes of the mesh, each once, got {axes} of a mesh "
            f"with axes {names}"
        )
    place = mesh.get_coordinate()
    if place is None:
        raise _outside(mesh.get_rank(), f"device mesh with axes {names}")
    # Of the mesh, not of its groups: an axis of size 1 may have none. Its own order, whatever the
    # order of the arguments, as in a flattened mesh.
    along = [i for i, name in enumerate(names) if name in axes] if names else [0]
    rank = 0
    for axis in along:
        rank = rank * mesh.size(axis) + place[axis]
    shape = " x ".join(f"{names[axis] if names else 'axis'} {mesh.size(axis)}" for axis in along)
    source = f"device mesh, {shape}, global rank {mesh.get_rank()}"
    return World(rank, prod(map(mesh.size, along)), source, Nearness.EXPLICIT)


def _outside(rank: int, what: str) -> WorldRefusedError:
    return WorldRefusedError(
        f"global rank {rank} is not in this {what}, so no share of the data is its own: ask only "
        f"on its members",
        Nearness.EXPLICIT,
    )
