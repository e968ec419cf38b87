"""An order that is written out: for those that cannot be computed place by place."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any

from ..arrays import numpy
from ..order import LazyOrder


@dataclass(frozen=True)
class Listed(LazyOrder[int]):
    """The indices in a column, 4 or 8 bytes each.

    Attributes:
        column: The indices, as 32-bit or 64-bit integers.
    """

    column: array[int]

    def __len__(self) -> int:
        """How many indices there are."""
        return len(self.column)

    def take(self, places: range) -> list[int]:
        """The sample indices at `places`. Costs O(len(places))."""
        return self.column[places.start : places.stop : places.step].tolist()

    def array(self, places: range) -> Any:
        """The same; an array where NumPy is installed."""
        np = numpy()
        column = (
            self.column if np is None else np.frombuffer(self.column, dtype=self.column.typecode)
        )
        return column[places.start : places.stop : places.step]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} indices)"


@dataclass(frozen=True)
class ListedBatches(LazyOrder[list[int]]):
    """Whole batches, in two columns.

    Attributes:
        column: The indices of all batches, one batch after the other.
        ends: Where in the column each batch begins, and where the last one ends.
    """

    column: array[int]
    ends: array[int]

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self.ends) - 1

    def take(self, places: range) -> list[list[int]]:
        """The batches at `places`. Costs what they hold."""
        ends = self.ends
        return [self.column[ends[place] : ends[place + 1]].tolist() for place in places]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} batches, {len(self.column)} indices)"
