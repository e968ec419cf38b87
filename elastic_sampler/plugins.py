"""Load the providers, ask them all, choose between their answers.

Every answer is collected before one is chosen: the choice depends on the answers alone, never on
the order in which a machine happens to list its packages. The nearest evidence wins; what
contradicts it and could be right is an error, not a guess.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from .errors import NoAnswerError, ProviderError, WorldConflictError, WorldRefusedError
from .world import Nearness, World

if TYPE_CHECKING:
    import pluggy

VARIABLE = "ELASTIC_SAMPLER_PROVIDER"
"""Names the provider to believe; detection is off then."""

_CURE = (
    f"set {VARIABLE} to the name of the provider to believe, or ELASTIC_SAMPLER_RANK and "
    f"ELASTIC_SAMPLER_WORLD_SIZE, or pass world="
)


@dataclass(frozen=True)
class Answer:
    """What one provider says.

    Attributes:
        provider: Its name.
        distribution: The package it came with, or "registered in code".
        world: Its world, None without one.
        refusal: Why its evidence cannot be used, if so.
        error: What else went wrong in it, if anything.
        reads: What it looks at.
    """

    provider: str
    distribution: str
    world: World | None = None
    refusal: WorldRefusedError | None = None
    error: ProviderError | None = None
    reads: tuple[str, ...] = ()

    @property
    def nearness(self) -> Nearness | None:
        """How near its evidence is, None without any."""
        return getattr(self.refusal or self.world, "nearness", None)


@dataclass(frozen=True)
class _Registry:
    """The plug-in manager, where each plug-in came from, and those that could not be loaded."""

    manager: pluggy.PluginManager
    origins: dict[str, str]
    broken: dict[str, Answer]

    def add(self, provider: object, name: str, origin: str) -> None:
        from pluggy import PluginValidationError

        if name in self.origins:
            raise ProviderError(
                f"there are two providers named {name!r}: one from {self.origins[name]}, one from "
                f"{origin}; uninstall one, or give it another name"
            )
        try:
            self.manager.register(provider, name)
            self.manager.check_pending()
            if self.implementation(name, "elastic_sampler_world") is None:
                raise ValueError("it has no function elastic_sampler_world marked @hookimpl")
        except (PluginValidationError, ValueError) as error:
            if self.manager.has_plugin(name):
                self.manager.unregister(name=name)
            raise ProviderError(f"provider {name!r} from {origin} is not valid: {error}") from error
        self.origins[name] = origin

    def implementation(self, name: str, hook: str) -> Callable[[], object] | None:
        """One plug-in's hook: pluggy would call all, and not say whose answer is whose."""
        for found in getattr(self.manager.hook, hook).get_hookimpls():
            if found.plugin_name == name:
                function: Callable[[], object] = found.function
                return function
        return None


@lru_cache(maxsize=1)
def _registry() -> _Registry:
    from importlib.metadata import entry_points

    import pluggy

    from . import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = _Registry(manager, {}, {})
    found = entry_points(group=hookspecs.PROJECT)
    rows = [(entry.name, entry.dist.name if entry.dist else "?", entry) for entry in found]
    for name, distribution, entry in sorted(rows, key=lambda row: row[:2]):
        try:
            registry.add(entry.load(), name, distribution)
        except Exception as error:
            told = ProviderError(
                f"provider {name!r} of the distribution {distribution!r} ({entry.value}) cannot be "
                f"loaded: {type(error).__name__}: {error}"
            )
            told.__cause__ = error
            registry.broken[f"{name} of {distribution}"] = Answer(name, distribution, error=told)
    return registry


def register(provider: object, name: str) -> None:
    """Add a provider in code: an object with functions marked `@hookimpl`.

    Raises:
        ProviderError: The name is taken, a hook is misspelt, or `elastic_sampler_world` is missing.
        ValueError: The name is empty.
    """
    if not name:
        raise ValueError(f"name must be a string that is not empty, got {name!r}")
    _registry().add(provider, name, "registered in code")


def unregister(name: str) -> None:
    """Take a provider away, also one that was installed, or that could not be loaded.

    Raises:
        ProviderError: There is none of that name.
    """
    registry = _registry()
    broken = [key for key, answer in registry.broken.items() if answer.provider == name]
    for key in broken:
        del registry.broken[key]
    if registry.origins.pop(name, None) is not None:
        registry.manager.unregister(name=name)
    elif not broken:
        raise ProviderError(_unknown(name))


def answers() -> list[Answer]:
    """What every provider says, sorted by name; one that cannot be loaded answers with an error."""
    registry = _registry()
    return [_answer(name) for name in sorted(registry.origins)] + list(registry.broken.values())


def _answer(name: str) -> Answer:
    registry = _registry()
    origin = registry.origins[name]
    reads: tuple[str, ...] = ()
    try:
        said = _call(name, "elastic_sampler_reads")
        reads = tuple(map(str, said)) if isinstance(said, (list, tuple)) else ()
        world = _call(name, "elastic_sampler_world")
        if not (world is None or isinstance(world, World)):
            raise TypeError(f"elastic_sampler_world must return a World or None, got {world!r}")
    except WorldRefusedError as refusal:
        return Answer(name, origin, refusal=refusal, reads=reads)
    except Exception as error:
        told = ProviderError(
            f"provider {name!r} from {origin} failed: {type(error).__name__}: {error}"
        )
        told.__cause__ = error
        return Answer(name, origin, error=told)
    return Answer(name, origin, world, reads=reads)


def _call(name: str, hook: str) -> object:
    function = _registry().implementation(name, hook)
    return None if function is None else function()


def choose(found: Sequence[Answer]) -> World | None:
    """The world to believe, None if nobody has any.

    Raises:
        ProviderError: A provider is broken.
        WorldRefusedError: The nearest evidence cannot be used.
        WorldConflictError: Two answers contradict each other, and it matters.
    """
    for answer in found:
        if answer.error is not None:
            raise _anew(answer.error)
    evidence = sorted(
        (answer for answer in found if answer.nearness is not None),
        key=lambda answer: (-(answer.nearness or 0), answer.refusal is None, answer.provider),
    )
    nearest = evidence[0] if evidence else Answer("nobody", "")
    if nearest.refusal is not None:
        told = f"{nearest.provider}: {nearest.refusal}; or {_CURE}"
        raise WorldRefusedError(told, nearest.refusal.nearness) from nearest.refusal
    for other in evidence[1:]:
        if _contradicts(nearest.world, other.world):
            raise WorldConflictError(
                f"{_said(nearest)}, but {_said(other)}: one of them counts something else (nodes, "
                f"an outer job), or was inherited from another process; {_CURE}"
            )
    return nearest.world


def _anew(error: ProviderError) -> ProviderError:
    # What is kept and raised often would hold on to the frames of every time.
    return error.with_traceback(None)


def _contradicts(nearest: World | None, other: World | None) -> bool:
    """Whether an answer that is not nearer than `nearest` could be right instead."""
    if nearest is None or other is None or other == nearest:
        return False
    if other.nearness == nearest.nearness:
        return True
    if nearest.nearness >= Nearness.LAUNCHER:
        return False  # the innermost launcher, a live runtime, the user: they settle it
    lonely = nearest.size == 1 and other.size > 1
    hinted = other.nearness == Nearness.HINT and nearest.size > 1
    return lonely or hinted


def _said(answer: Answer) -> str:
    world = answer.world
    if world is None:
        return f"{answer.provider} has no world"
    return (
        f"{answer.provider} says rank {world.rank} of {world.size} ({world.source}; evidence: "
        f"{world.nearness.name})"
    )


def ask(provider: str | None = None) -> World | None:
    """The world that a named provider gives, or the one that detection finds; None for nobody's.

    Args:
        provider: Name of a provider. None reads `ELASTIC_SAMPLER_PROVIDER`, and asks them all
            where that is not set.

    Raises:
        NoAnswerError: The named provider has no answer.
        ProviderError, WorldRefusedError, WorldConflictError: As `choose` raises them.
    """
    said_by = "world=" if provider is not None else f"{VARIABLE}="
    name = os.environ.get(VARIABLE) if provider is None else provider
    if name is None or (provider is None and not name):
        return choose(answers())
    registry = _registry()
    for broken in registry.broken.values():  # also the second of two of one name: which is meant?
        if broken.provider == name and broken.error is not None:
            raise _anew(broken.error)
    if name not in registry.origins:
        raise ProviderError(f"{said_by}{name!r}: {_unknown(name)}")
    answer = _answer(name)
    world = choose([answer])
    if world is None:
        raise NoAnswerError(
            f"{said_by}{name!r}: this provider has no answer in this process; it looked at "
            f"{', '.join(answer.reads) or 'nothing that it names'}"
        )
    return world


def alone() -> World:
    """Rank 0 of 1, because nobody answered; its source says what was looked at."""
    reads = dict.fromkeys(read for answer in answers() for read in answer.reads)
    return World(0, 1, f"no provider answered; looked at {', '.join(reads) or 'nothing'}")


def _unknown(name: str) -> str:
    known = ", ".join(sorted(_registry().origins)) or "none"
    return f"no provider is named {name!r}; known: {known}"
