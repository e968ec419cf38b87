"""What an epoch looks like: callables from epoch to order, one per file."""

from .sequential import Rotation, Sequential
from .shuffled import Shuffled

__all__ = ["Rotation", "Sequential", "Shuffled"]
