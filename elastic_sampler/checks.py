"""Is this argument what it must be? One sentence of error: the rule, what was got."""

from __future__ import annotations

import operator
from typing import SupportsIndex

MAX_SAMPLES = 2**62
"""The largest number of samples: sums of positions still fit in a signed 64-bit word."""


def integer(name: str, value: SupportsIndex, low: int | None = None) -> int:
    """`value` as a built-in int, at least `low`.

    Raises:
        TypeError: `value` is a bool, or no integer (a float, a string, …). NumPy's integers are.
        ValueError: `value` is less than `low`.
    """
    # NumPy's bool has no __index__ from version 2 on, and warned before.
    if isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, got {value!r}") from None
    if low is not None and number < low:
        raise ValueError(f"{name} must be at least {low}, got {number}")
    return number


def num_samples(name: str, value: SupportsIndex) -> int:
    """`value` as a number of samples, `0 <= value <= 2**62`."""
    number = integer(name, value, 0)
    if number > MAX_SAMPLES:
        raise ValueError(f"{name} must be at most 2**62, got {number}")
    return number
