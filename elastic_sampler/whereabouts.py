"""Whom to ask for the world, what was answered, and what of it travels in a pickle."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeAlias

from . import plugins
from .errors import NoAnswerError, WorldLostError
from .world import World

WorldLike: TypeAlias = World | str | Callable[[], World] | None
"""What `world=` takes: None detects, a string names a provider, a callable is asked each time."""


class Whereabouts:
    """Asks for this process's world each time, and never falls back silently.

    Attributes:
        given: What was passed as `world=`.
        nobody: Whether the last question was answered by nobody: rank 0 of 1 for want of evidence.
    """

    def __init__(self, given: WorldLike) -> None:
        if not (given is None or isinstance(given, (World, str)) or callable(given)):
            raise TypeError(
                f"world must be a World, the name of a provider, a callable that returns a World, "
                f"or None to detect it, got {given!r}"
            )
        self.given = given
        self.nobody = False
        self._answer: World | None = None
        self._pickled_in: int | None = None

    def ask(self) -> World:
        """The world of this process, now.

        Raises:
            WorldLostError: A provider answered before, and now nobody does.
            WorldError, ProviderError: As `World.detect` raises them.
            TypeError: The callable returned something else than a World.
        """
        if isinstance(self.given, World):
            return self.given
        if callable(self.given):
            world = self.given()
            if not isinstance(world, World):
                raise TypeError(f"world={self.given!r} must return a World, got {world!r}")
            self._answer = world
            return world
        try:
            answer = plugins.ask(self.given)
        except NoAnswerError:
            if self._answer is None:
                raise
            answer = None
        self.nobody = answer is None and self._answer is None
        if answer is not None:
            self._answer, self._pickled_in = answer, None
            return answer
        return plugins.alone() if self._answer is None else self._travelled(self._answer)

    def _travelled(self, answer: World) -> World:
        if self._pickled_in is not None and self._may_be_used():
            return answer
        raise WorldLostError(
            f"a provider answered rank {answer.rank} of {answer.size} before ({answer.source}), "
            f"and now nobody does: a process group was destroyed, or this sampler was copied to "
            f"another process; make the group again before iterating, or pass world="
        )

    def _may_be_used(self) -> bool:
        """Whether the answer was given here, or in the process that started this one."""
        return self._pickled_in is None or self._pickled_in == _parent()

    def __deepcopy__(self, memo: object) -> Whereabouts:
        # A copy in this process asks whom the original asks: nothing travels.
        copied = type(self)(self.given)
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, Any]:
        given = self.given
        if callable(given) and not isinstance(given, World):
            import pickle

            try:
                pickle.dumps(given)
            except Exception as error:
                if self._answer is None:
                    raise pickle.PicklingError(
                        f"world={given!r} cannot be pickled ({error}), and it was never asked: use "
                        f"a module-level function, or ask (iterate, or len) before pickling"
                    ) from error
                given = self._answer
        # An answer that may not be used here is not passed on either.
        pickled_in = os.getpid() if self._may_be_used() else self._pickled_in
        return {"given": given, "_answer": self._answer, "_pickled_in": pickled_in}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, nobody=False)


def _parent() -> int | None:
    """The pid of the process that started this one through multiprocessing, if one did."""
    from multiprocessing import parent_process

    parent = parent_process()
    return None if parent is None else parent.pid
