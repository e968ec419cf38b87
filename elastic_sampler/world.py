"""Who am I: this process's rank, of how many?

A `World` is a value. Where it comes from is the business of the providers (`plugins`); what a
launcher's variables must look like before anyone believes them is said here, in
`World.from_variables`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING

from .checks import integer
from .errors import WorldRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .jax_worlds import Mesh, Sharding
    from .torch_worlds import DeviceMesh, ProcessGroup


class Nearness(IntEnum):
    """How near to this process a piece of evidence is: of two, the nearer is believed."""

    HINT = 0
    """Bare `RANK` and `WORLD_SIZE`, which on some platforms count nodes."""
    SCHEDULER = 1
    """A step of Slurm or Flux: the outermost, everything else may run inside one of its tasks."""
    PMI = 2
    """The names that several launchers share: `PMI_RANK` and `PMI_SIZE`."""
    MPI = 3
    """Launchers with names of their own: Open MPI, MVAPICH2, jsrun, Horovod, Paddle, …."""
    LAUNCHER = 4
    """A launcher of processes: `RANK`, `WORLD_SIZE` and `LOCAL_RANK` together."""
    LIVE = 5
    """An initialised runtime or process group: what the training step really waits for."""
    EXPLICIT = 6
    """Said by the user."""


@dataclass(frozen=True)
class World:
    """This process's rank among `size` equal processes.

    With tensor, pipeline or context parallelism these are the *data-parallel* rank and size.

    Attributes:
        rank: Index of this process, `0 <= rank < size`.
        size: Number of processes that share the data, at least 1.
        source: Where the numbers were read. Not part of equality.
        nearness: How near to this process the evidence is. Not part of equality.

    Raises:
        TypeError: `rank` or `size` is not an integer (a bool or a string is not).
        ValueError: `size` is less than 1, or `rank` is outside `[0, size)`.

    Examples:
        >>> World(1, 4)
        World(rank=1, size=4, source='given')
        >>> World(4, 4)
        Traceback (most recent call last):
        ValueError: rank must be in [0, 4), got 4 (given)
    """

    rank: int
    size: int
    source: str = field(default="given", compare=False)
    nearness: Nearness = field(default=Nearness.HINT, compare=False, repr=False)

    def __post_init__(self) -> None:
        size = integer("world size", self.size)
        if size < 1:
            raise ValueError(
                f"world size must be at least 1, got {size} with rank {self.rank!r} ({self.source})"
            )
        rank = integer("rank", self.rank)
        if not 0 <= rank < size:
            raise ValueError(f"rank must be in [0, {size}), got {rank} ({self.source})")
        object.__setattr__(self, "rank", rank)  # NumPy's integers become Python's
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "nearness", Nearness(self.nearness))

    @classmethod
    def detect(cls) -> World:
        """Ask the providers; without any answer this process is rank 0 of 1, and `source` says why.

        Raises:
            WorldConflictError: Two answers contradict each other.
            WorldRefusedError: The nearest evidence is half there, or malformed.
            ProviderError: A provider is broken, or `ELASTIC_SAMPLER_PROVIDER` names none.
        """
        from . import plugins

        return plugins.ask() or plugins.alone()

    @classmethod
    def from_variables(
        cls,
        rank: str,
        size: str,
        *,
        nearness: Nearness = Nearness.HINT,
        environ: Mapping[str, str] | None = None,
    ) -> World | None:
        """The world in a pair of environment variables, or None if neither is set.

        Only a whole pair counts. An empty string counts as unset.

        Args:
            rank: Name of the variable that holds the rank.
            size: Name of the variable that holds the world size.
            nearness: How near to this process whoever sets this pair is.
            environ: Where to look, `os.environ` by default.

        Raises:
            WorldRefusedError: Half of the pair is missing, a value is not a plain decimal integer,
                or the rank is outside `[0, size)`.

        Examples:
            >>> World.from_variables("RANK", "WORLD_SIZE", environ={"RANK": "1", "WORLD_SIZE": "4"})
            World(rank=1, size=4, source='RANK=1, WORLD_SIZE=4')
        """
        read = os.environ if environ is None else environ
        found = {name: read[name] for name in (rank, size) if read.get(name)}
        if not found:
            return None
        if len(found) == 1:
            ((name, value),) = found.items()
            missing = size if name == rank else rank
            raise WorldRefusedError(
                f"{rank} and {size} must be set together, got {name}={_shown(value)} without "
                f"{missing}: set {missing} too, or unset {name}",
                nearness,
            )
        numbers = {name: _decimal(name, value, nearness) for name, value in found.items()}
        if not 0 <= numbers[rank] < numbers[size]:
            raise WorldRefusedError(
                f"{rank} must be in [0, {size}) and {size} at least 1, "
                f"got {rank}={numbers[rank]}, {size}={numbers[size]}",
                nearness,
            )
        said = ", ".join(f"{name}={number}" for name, number in numbers.items())
        return cls(numbers[rank], numbers[size], said, nearness)

    # Where ranks hold parts of one model, the data-parallel ones count. The frameworks are imported
    # in modules of their own.

    @classmethod
    def from_process_group(cls, group: ProcessGroup) -> World:
        """The world of a `torch.distributed` process group: its ranks share the data.

        It makes no group and calls no collective.

        Args:
            group: The data-parallel group that this process is in.

        Raises:
            WorldRefusedError: This process is not in the group.
            TypeError: `group` is None. The default group needs no name: it is detected.
        """
        from . import torch_worlds

        return torch_worlds.of_process_group(group)

    @classmethod
    def from_device_mesh(cls, mesh: DeviceMesh, *axes: str) -> World:
        """The world along the data-parallel axes of a PyTorch `DeviceMesh`.

        Ranks that differ only along other axes (tensor, pipeline, context) get the same rank. It
        makes no group and calls no collective.

        Args:
            mesh: The mesh.
            axes: Names of the axes that divide the data, such as `"dp"`, or `"dp_replicate",
                "dp_shard"`. They count in the mesh's order. May be left out of a mesh that has
                one axis only.

        Raises:
            WorldRefusedError: This process is not in the mesh.
            ValueError: An axis is not one of the mesh, or none is named where there are several.
        """
        from . import torch_worlds

        return torch_worlds.of_device_mesh(mesh, axes)

    @classmethod
    def from_jax_mesh(cls, mesh: Mesh, *axes: str) -> World:
        """The world of the *processes* whose devices lie along these axes of a JAX mesh.

        A process may have several devices, and so several places along the axes; processes with
        the same places (model parallelism) get the same rank. Costs O(devices).

        Args:
            mesh: The mesh.
            axes: Names of the axes that the batch is divided along, such as `"data"`. May be left
                out of a mesh that has one axis only.

        Raises:
            WorldRefusedError: This process has no device in the mesh, or processes hold parts of
                the batch that overlap without being the same, or are not equally many.
            ValueError: An axis is not one of the mesh, or none is named where there are several.
        """
        from . import jax_worlds

        return jax_worlds.of_mesh(mesh, axes)

    @classmethod
    def from_jax_sharding(
        cls, sharding: Sharding, global_shape: Sequence[int], *, axis: int = 0
    ) -> World:
        """The world of the *processes* that a sharded JAX array of batches needs data from.

        As `from_jax_mesh`, for any sharding: what counts are the rows that each process holds.
        Costs O(devices).

        Args:
            sharding: How the array is laid over the devices.
            global_shape: Shape of the whole array, such as `(global_batch_size, features)`.
            axis: The axis of the array that samples lie along.

        Raises:
            WorldRefusedError: As `from_jax_mesh`.
            ValueError: The array has no such axis, or cannot be sharded so.
        """
        from . import jax_worlds

        return jax_worlds.of_sharding(sharding, global_shape, axis)


def _decimal(name: str, value: str, nearness: Nearness) -> int:
    # int() also takes "1_0", " 1" and digits of other scripts; 18 digits fit in 64 bits.
    if re.fullmatch("[0-9]{1,18}", value):
        return int(value)
    raise WorldRefusedError(
        f"{name} must be a plain decimal integer of at most 18 digits, got {_shown(value)}",
        nearness,
    )


def _shown(value: str) -> str:
    return repr(value) if len(value) <= 60 else f"{value[:57]!r}… ({len(value)} characters)"
