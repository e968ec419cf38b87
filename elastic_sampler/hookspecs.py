"""The hooks that a provider implements, and the marker to implement them with.

A provider is any object (a module will do) with functions marked `@hookimpl`, registered in the
entry-point group `elastic_sampler` or with `elastic_sampler.register`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from .world import World

PROJECT = "elastic_sampler"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def elastic_sampler_world() -> World | None:
    """This process's World, or None if its launcher is not yours.

    Initialise nothing, import no framework (look in `sys.modules`), make no network call. Say how
    near your evidence is with `World(..., nearness=)`. Evidence that cannot be used raises
    `WorldRefusedError`; `World.from_variables` does so for a pair of variables.
    """


@hookspec
def elastic_sampler_reads() -> Sequence[str]:  # type: ignore[empty-body] # pluggy: no body
    """The variables and runtimes that you look at: shown when nobody answers."""


@hookspec
def elastic_sampler_notes() -> Sequence[str]:  # type: ignore[empty-body] # pluggy: no body
    """What in this process is easily taken for evidence, and why it is none: a sentence each.

    Only the command `elastic-sampler world` asks for them.
    """
