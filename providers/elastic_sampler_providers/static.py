"""A fixed world, said by the user: in code, or in two environment variables.

In code: `elastic_sampler.register(Static(World(2, 8)), "mine")`. In the environment:
`ELASTIC_SAMPLER_RANK` and `ELASTIC_SAMPLER_WORLD_SIZE`. Both are nearer than any other evidence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from elastic_sampler import Nearness, World, hookimpl


@dataclass(frozen=True, eq=False)  # pluggy takes equal plug-ins for one
class Static:
    """A provider that always gives the same world."""

    world: World

    @hookimpl
    def elastic_sampler_world(self) -> World:
        """The fixed world."""
        return replace(self.world, nearness=Nearness.EXPLICIT)

    @hookimpl
    def elastic_sampler_reads(self) -> list[str]:
        """What is looked at: nothing."""
        return ["a fixed world"]


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair of variables, None if neither is set."""
    return World.from_variables(
        "ELASTIC_SAMPLER_RANK", "ELASTIC_SAMPLER_WORLD_SIZE", nearness=Nearness.EXPLICIT
    )


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["ELASTIC_SAMPLER_RANK", "ELASTIC_SAMPLER_WORLD_SIZE"]
