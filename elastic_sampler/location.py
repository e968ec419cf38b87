"""Where in an epoch is a sample dealt, and to whom?"""

from __future__ import annotations

from dataclasses import dataclass

from .batches import Batches
from .iteration import Plan
from .order import find


@dataclass(frozen=True)
class Location:
    """One place at which a sample is dealt.

    Attributes:
        epoch: The epoch.
        position: The place in its order; from the number of samples on a repeat of the tail.
        step: Which step it is of the pass from the resume point on, counted from 0: the how many-th
            index of its rank, or global batch. None where that is not known (any more).
        rank: Which rank gets it. None where that is not known, or nobody does (`"drop"`).
    """

    epoch: int
    position: int
    step: int | None = None
    rank: int | None = None


def locations(plan: Plan, sample: int, *, known: bool = True) -> list[Location]:
    """Where a pass deals a sample, in the order of its places.

    Args:
        plan: The pass, as any rank walks it.
        sample: A sample index.
        known: Whether the world size of the plan is the epoch's.
    """
    length, size = plan.num_samples, plan.world.size
    if isinstance(plan.items, Batches):  # its last, partial step may have more places than others
        stop, step_size = plan.items.stop, plan.items.batching.global_batch_size
        last = max(length - plan.start, 0) // step_size
    else:
        stop, step_size, last = plan.items.places.stop, size, length
    found = []
    for position in find(plan.order, sample):
        for place in range(position, max(stop, length), length):
            if not known or not plan.start <= place < stop:
                found.append(Location(plan.epoch, place))
                continue
            step = min((place - plan.start) // step_size, last)
            seat = (place - plan.start - step * step_size) % size
            rank = (seat - plan.seat + plan.world.rank) % size
            found.append(Location(plan.epoch, place, step, rank))
    return sorted(found, key=lambda location: location.position)
