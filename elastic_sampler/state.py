"""Where is the job in the epoch? A handful of integers, the same on every rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from .checks import MAX_SAMPLES, integer
from .errors import StateError

VERSION = 1
"""The version of the format, as states name it."""

MAX_POSITION = 2**63 - 1


@dataclass(frozen=True)
class State:
    """How far the whole job is in an epoch. Built-in ints and strings only: it survives JSON.

    Attributes:
        epoch: The epoch, at least 0.
        position: How many places of the epoch's order all ranks together have consumed, in
            `[0, 2**63)`. From `num_samples` on the epoch is finished.
        num_samples: Length of the epoch's order, in `[0, 2**62]`.
        seed: The sampler's seed.
        order: Name of the kind of order: "sequential", "shuffled/1", or a custom order's.
        origin: Where in the data an unshuffled epoch began, in `[0, num_samples)`, and None while
            `position` is 0: the rotation belongs to whoever begins the epoch.
        version: Version of this format, 1.

    Raises:
        StateError: A field has the wrong type or is out of range; it is named.
    """

    epoch: int
    position: int
    num_samples: int
    seed: int
    order: str
    origin: int | None
    version: int = VERSION

    def __post_init__(self) -> None:
        for name in ("version", "epoch", "position", "num_samples", "seed"):
            low = None if name == "seed" else 0
            try:
                object.__setattr__(self, name, integer(name, getattr(self, name), low))
            except (TypeError, ValueError) as error:
                raise StateError(f"state: {error}") from None
        self._require("version", self.version == VERSION, f"{VERSION}, the one this release reads")
        self._require("num_samples", self.num_samples <= MAX_SAMPLES, "at most 2**62")
        self._require("position", self.position <= MAX_POSITION, "less than 2**63")
        if not self.num_samples:
            self._require("position", self.position == 0, "0 where num_samples is 0")
        self._require("order", isinstance(self.order, str), "a string")
        if not self.position:
            self._require("origin", self.origin is None, "None where position is 0")
            return
        inside = isinstance(self.origin, int) and not isinstance(self.origin, bool)
        inside = inside and self.origin in range(self.num_samples)
        self._require("origin", inside, f"an integer in [0, {self.num_samples})")

    def _require(self, name: str, holds: bool, rule: str) -> None:
        if not holds:
            raise StateError(f"state: {name} must be {rule}, got {getattr(self, name)!r}")

    @property
    def finished(self) -> bool:
        """Whether nothing of the epoch is left. An epoch of no samples never is."""
        return 0 < self.num_samples <= self.position

    @property
    def begun(self) -> bool:
        """Whether the epoch is under way: only then must data, seed and order still agree."""
        return 0 < self.position < self.num_samples

    def to_dict(self) -> dict[str, Any]:
        """The state as a dict of JSON values."""
        return {"version": self.version, **asdict(self)}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> State:
        """A state from what `to_dict` gave, strictly.

        Raises:
            StateError: No mapping; a key is missing or unknown (each is named); or as `State` says.
        """
        if not isinstance(state, Mapping):
            raise StateError(f"state must be a dict, got {type(state).__name__}")
        known = {field.name for field in fields(cls)}
        unknown, missing = set(state) - known, known - set(state)
        if unknown:
            raise StateError(f"state: unknown keys {sorted(map(repr, unknown))}")
        if missing:
            raise StateError(f"state: missing keys {sorted(missing)}")
        return cls(**state)

    @staticmethod
    def compare(states: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
        """The fields in which the states of several ranks differ: name -> one value per state.

        Empty if all agree, as the states of ranks in lock-step do.

        Examples:
            >>> one, other = {"epoch": 0, "position": 8}, {"epoch": 0, "position": 12}
            >>> State.compare([one, one, other])
            {'position': [8, 8, 12]}
        """
        names = dict.fromkeys(name for state in states for name in state)
        values = {name: [state.get(name) for state in states] for name in names}
        return {name: found for name, found in values.items() if any(v != found[0] for v in found)}
