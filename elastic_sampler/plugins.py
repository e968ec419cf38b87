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
_LONELY = (
    "the first is one process, as an mpiexec inside of each task makes it, or another MPI's mpiexec"
)
_OTHER = (
    "one of them counts something else (nodes, an outer job), or was inherited from another process"
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
    hooks: dict[tuple[str, str], Callable[[], object]]
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
            # Kept by name: pluggy would call all, and not say whose answer is whose.
            hooks = {
                (name, hook.name): implementation.function
                for hook in self.manager.get_hookcallers(provider) or ()
                for implementation in hook.get_hookimpls()
                if implementation.plugin_name == name
            }
            if (name, "elastic_sampler_world") not in hooks:
                raise ValueError("it has no function elastic_sampler_world marked @hookimpl")
        except (PluginValidationError, ValueError) as error:
            if self.manager.has_plugin(name):
                self.manager.unregister(name=name)
            raise ProviderError(f"provider {name!r} from {origin} is not valid: {error}") from error
        self.hooks.update(hooks)
        self.origins[name] = origin

    def call(self, name: str, hook: str) -> object:
        """What one provider's hook returns, None without one."""
        function = self.hooks.get((name, hook))
        return None if function is None else function()


@lru_cache(maxsize=1)
def _registry() -> _Registry:
    from importlib.metadata import entry_points

    import pluggy

    from . import hookspecs

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = _Registry(manager, {}, {}, {})
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
        for hook in [key for key in registry.hooks if key[0] == name]:
            del registry.hooks[hook]
    elif not broken:
        raise ProviderError(_unknown(name))


def answers(provider: str | None = None) -> list[Answer]:
    """What every provider says, or those of one name; one that is broken answers with an error."""
    registry = _registry()
    said = [_answer(name) for name in sorted(registry.origins) if provider in (None, name)]
    broken = registry.broken.values()  # also the second of two of one name: which is meant?
    return said + [answer for answer in broken if provider in (None, answer.provider)]


def _answer(name: str) -> Answer:
    registry = _registry()
    origin = registry.origins[name]
    reads: tuple[str, ...] = ()
    try:
        reads = _strings(registry.call(name, "elastic_sampler_reads"))
        world = registry.call(name, "elastic_sampler_world")
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


def _strings(said: object) -> tuple[str, ...]:
    return tuple(map(str, said)) if isinstance(said, (list, tuple)) else ()


def notes(answer: Answer) -> tuple[str, ...]:
    """What its provider has to say about evidence that is none, for people; () without any."""
    if answer.error is not None:
        return ()
    try:
        return _strings(_registry().call(answer.provider, "elastic_sampler_notes"))
    except Exception as error:  # what only explains may not hide what is explained
        return (f"its notes failed: {type(error).__name__}: {error}",)


def choose(found: Sequence[Answer]) -> Answer | None:
    """The answer to believe, which has a world; None if nobody has any.

    Raises:
        ProviderError: A provider is broken.
        WorldRefusedError: The nearest evidence cannot be used, or some further out cannot and the
            nearest is a lone process.
        WorldConflictError: Two answers contradict each other, and it matters.
    """
    for answer in found:
        if answer.error is not None:
            # What is kept and raised often would hold on to the frames of every time.
            raise answer.error.with_traceback(None)
    evidence = sorted((answer for answer in found if answer.nearness is not None), key=_order)
    if not evidence:
        return None
    nearest, *others = evidence
    if nearest.world is None:
        raise _refused(nearest)
    for other in others:
        if other.world is None and _is_lonely(nearest.world):
            raise _refused(other)
        if other.world is not None and _contradicts(nearest.world, other.world):
            one, two = _said(nearest.provider, nearest.world), _said(other.provider, other.world)
            why = _LONELY if _is_lonely(nearest.world) else _OTHER
            raise WorldConflictError(f"{one}, but {two}: {why}; {_CURE}")
    return nearest


def _order(answer: Answer) -> tuple[int, bool, str]:
    """The nearest first; of the same nearness the refusals first."""
    frame = answer.world is not None and _is_frame(answer.world)
    nearness = Nearness.HINT - 1 if frame else answer.nearness or Nearness.HINT
    return -nearness, answer.refusal is None, answer.provider


def _is_frame(world: World) -> bool:
    """Whether this is a scheduler's step of one task: all else may have been started in it."""
    return world.nearness == Nearness.SCHEDULER and world.size == 1


def _is_lonely(world: World) -> bool:
    """Whether this is one process that may only not have been told of the others."""
    # Beyond: the innermost launcher, a live runtime, the user. They settle it, also at size 1.
    return world.size == 1 and world.nearness < Nearness.LAUNCHER


def _contradicts(nearest: World, other: World) -> bool:
    """Whether an answer that is not nearer than `nearest` could be right instead."""
    if other == nearest or _is_frame(other):
        return False
    if other.nearness == nearest.nearness:
        return True
    if nearest.nearness >= Nearness.LAUNCHER:
        return False
    return _is_lonely(nearest) or other.nearness == Nearness.HINT


def _refused(answer: Answer) -> WorldRefusedError:
    nearness = answer.nearness or Nearness.HINT
    told = WorldRefusedError(f"{answer.provider}: {answer.refusal}; or {_CURE}", nearness)
    told.__cause__ = answer.refusal
    return told


def _said(provider: str, world: World) -> str:
    return (
        f"{provider} says rank {world.rank} of {world.size} ({world.source}; evidence: "
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
    answer = believed(answers(_name(provider)), provider)
    return None if answer is None else answer.world


def believed(found: Sequence[Answer], provider: str | None = None) -> Answer | None:
    """Of the answers of all providers, the one whose world `ask` gives. Raises as `ask`."""
    name = _name(provider)
    if name is None:
        return choose(found)
    said_by = f"{VARIABLE}={name!r}" if provider is None else f"world={name!r}"
    own = [answer for answer in found if answer.provider == name]
    if not own:
        raise ProviderError(f"{said_by}: {_unknown(name)}")
    answer = choose(own)
    if answer is None:
        raise NoAnswerError(
            f"{said_by}: this provider has no answer in this process; it looked at "
            f"{', '.join(own[0].reads) or 'nothing that it names'}"
        )
    return answer


def alone() -> World:
    """Rank 0 of 1, because nobody answered; its source says what was looked at."""
    registry = _registry()
    said = (registry.call(name, "elastic_sampler_reads") for name in sorted(registry.origins))
    reads = dict.fromkeys(read for some in said for read in _strings(some))
    return World(0, 1, f"no provider answered; looked at {', '.join(reads) or 'nothing'}")


def _name(provider: str | None) -> str | None:
    """The name of the provider to believe, None to ask them all."""
    return provider if provider is not None else os.environ.get(VARIABLE) or None


def _unknown(name: str) -> str:
    known = ", ".join(sorted(_registry().origins)) or "none"
    return f"no provider is named {name!r}; known: {known}"
