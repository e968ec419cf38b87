"""Columns of numbers, 8 bytes each, made of whatever a user has; and digests of them."""

from __future__ import annotations

import hashlib
import math
import sys
from array import array
from collections.abc import Iterable
from typing import Any, SupportsFloat, SupportsIndex, cast

from .checks import integer


def reals(name: str, values: Iterable[SupportsFloat]) -> array[float]:
    """`values` as a column of doubles, each finite and at least 0. Costs O(len).

    Arrays that know the buffer protocol (NumPy's, the standard library's) are copied at once.

    Raises:
        TypeError: A value is a bool, or no number; its position is named.
        ValueError: A value is negative, infinite or not a number; its position is named. Or the sum
            of all is not finite.
    """
    column = _copied(values, "d")
    if column is None:
        column = array("d")
        for position, value in enumerate(values):
            try:
                if type(value).__name__ in ("bool", "bool_"):  # Python's, NumPy's
                    raise TypeError
                column.append(value)  # type: ignore[arg-type]
            except TypeError:
                raise TypeError(
                    f"{name} must be numbers, got {value!r} at {name}[{position}]"
                ) from None
    try:
        total = math.fsum(column)
    except (OverflowError, ValueError):
        total = math.inf
    if not math.isfinite(total) or min(column, default=0.0) < 0:
        for position, value in enumerate(column):
            if not 0 <= value < math.inf:
                raise ValueError(
                    f"{name} must be finite and at least 0, got {value} at {name}[{position}]"
                )
        raise ValueError(f"the sum of {name} must be finite, got more than {sys.float_info.max}")
    return cast("array[float]", column)


def integers(name: str, values: Iterable[SupportsIndex]) -> array[int] | range:
    """`values` as a column of 64-bit integers, each at least 0. Costs O(len); a range stays one.

    Raises:
        TypeError: A value is a bool, or no integer; its position is named.
        ValueError: A value is negative; its position is named.
    """
    if isinstance(values, range):
        if values and min(values[0], values[-1]) < 0:
            raise ValueError(f"{name} must be at least 0, got {values}")
        return values
    column = _copied(values, "q")
    if column is None:
        column = array("q", [])
        for position, value in enumerate(values):
            column.append(integer(f"{name}[{position}]", value))
    if min(column, default=0) < 0:
        position = next(i for i, value in enumerate(column) if value < 0)
        raise ValueError(f"{name} must be at least 0, got {column[position]} at {name}[{position}]")
    return cast("array[int]", column)


def digest(*columns: array[float] | array[int] | range) -> str:
    """12 hexadecimal digits of what the columns hold, the same on every machine."""
    found = hashlib.sha256()
    for column in columns:
        found.update(f"{len(column)};".encode())
        if isinstance(column, range):
            found.update(repr(column).encode())
        elif sys.byteorder == "little":
            found.update(column)
        else:
            swapped = column[:]
            swapped.byteswap()
            found.update(swapped)
    return found.hexdigest()[:12]


def _copied(values: object, code: str) -> array[Any] | None:
    """A copy of an array of such numbers, in no time; None of anything else."""
    try:
        view = memoryview(values)  # type: ignore[arg-type]
    except TypeError:
        return None
    alike = ("d",) if code == "d" else ("q", "l", "n")
    if view.ndim != 1 or view.format not in alike or view.itemsize != 8 or not view.c_contiguous:
        return None
    column = array(code)
    column.frombytes(view.cast("B"))
    return column
