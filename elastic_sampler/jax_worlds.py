"""Data-parallel worlds of JAX's meshes and shardings.

JAX counts devices, a sampler counts processes. So processes are grouped by the parts of the batch
that their devices hold: equal parts are one rank (model parallelism), disjoint ones are different
ranks, and parts that overlap otherwise are no world at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from .errors import WorldRefusedError
from .world import Nearness, World

if TYPE_CHECKING:
    from jax.sharding import Mesh as Mesh
    from jax.sharding import Sharding as Sharding

    Part = tuple[int, ...]  # of the batch: a place along its axes, or its first row


def of_mesh(mesh: Mesh, axes: tuple[str, ...]) -> World:
    """As `World.from_jax_mesh`."""
    import numpy as np

    names = mesh.axis_names
    if not axes and len(names) == 1:
        axes = names
    elif not axes or not set(axes) <= set(names) or len(set(axes)) < len(axes):
        raise ValueError(
            f"axes must name the axes of the mesh that the batch is divided along, each once, got "
            f"{axes} of a mesh with axes {names}"
        )
    along = [i for i, name in enumerate(names) if name in axes]
    held = (
        (device.process_index, tuple(place[axis] for axis in along))
        for place, device in np.ndenumerate(mesh.devices)
    )
    shape = " x ".join(f"{names[axis]} {mesh.devices.shape[axis]}" for axis in along)
    return _of_parts(held, prod(mesh.devices.shape[axis] for axis in along), f"JAX mesh, {shape}")


def of_sharding(sharding: Sharding, shape: Sequence[int], axis: int) -> World:
    """As `World.from_jax_sharding`."""
    if axis not in range(len(shape)):
        raise ValueError(f"axis must be in [0, {len(shape)}), got {axis} of shape {tuple(shape)}")
    indices: Mapping[Any, tuple[slice, ...]] = sharding.devices_indices_map(tuple(shape))
    rows = [
        (device.process_index, (index[axis].indices(shape[axis])[0],))
        for device, index in indices.items()
    ]
    parts = len({part for _, part in rows})
    return _of_parts(rows, parts, f"JAX sharding of {tuple(shape)}, axis {axis}")


def _of_parts(held: Iterable[tuple[int, Part]], count: int, what: str) -> World:
    """The world of processes that each hold some of so many parts of the batch.

    Args:
        held: For each device its process, and the part that it holds.
        count: How many parts there are.
        what: Where all that comes from.
    """
    import jax

    parts_of: dict[int, set[Part]] = {}
    for process, part in held:
        parts_of.setdefault(process, set()).add(part)
    here = jax.process_index()
    if here not in parts_of:
        raise _refused(f"process {here} has no device in it", what)
    blocks = list(dict.fromkeys(frozenset(parts) for parts in parts_of.values()))
    if sum(map(len, blocks)) > count:
        raise _refused("two processes hold parts that are neither the same nor disjoint", what)
    if len({len(block) for block in blocks}) > 1:
        raise _refused("processes hold parts of different sizes", what)
    blocks.sort(key=min)
    source = f"{what}, process {here} of {jax.process_count()}"
    return World(blocks.index(frozenset(parts_of[here])), len(blocks), source, Nearness.EXPLICIT)


def _refused(why: str, what: str) -> WorldRefusedError:
    return WorldRefusedError(
        f"{what}: {why}. Two processes must hold the same parts of the batch, or none in common, "
        f"and all of them equally many",
        Nearness.EXPLICIT,
    )
