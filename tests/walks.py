"""Ranks that walk an epoch through resizes, for the tests of the laws."""

from __future__ import annotations

from itertools import chain, zip_longest
from typing import Any

from elastic_sampler import ElasticDistributedSampler, World


def ranks_of(num_samples: int, size: int, **kwargs: Any) -> list[ElasticDistributedSampler]:
    return [
        ElasticDistributedSampler(num_samples, world=World(rank, size), **kwargs)
        for rank in range(size)
    ]


def walk(
    num_samples: int, history: list[tuple[int, int]], last: int, **kwargs: Any
) -> tuple[list[int], list[list[int]], dict[str, Any]]:
    """Play a history: what was visited, the lists of the last round's ranks, the end state."""
    visited: list[int] = []
    state = None
    lists: list[list[int]] = []
    for size, steps in [*history, (last, -1)]:
        samplers = ranks_of(num_samples, size, **kwargs)
        for sampler in samplers:
            if state is not None:
                sampler.load_state_dict(state)
        iterators = [iter(sampler) for sampler in samplers]
        lists = [[] for _ in iterators]
        if steps < 0:
            lists = [list(iterator) for iterator in iterators]
        else:
            steps = min(steps, *map(len, samplers))
            for iterator, taken in zip(iterators, lists, strict=True):
                taken.extend(next(iterator) for _ in range(steps))
        visited += in_order_of_visits(lists, kwargs.get("start_rank", 0))
        states = [iterator.state_dict() for iterator in iterators]
        assert all(state == states[0] for state in states)  # one rank's stands for all
        state = states[0]
        if num_samples and state["position"] >= num_samples:
            break
    assert state is not None
    return visited, lists, state


def in_order_of_visits(lists: list[list[int]], start_rank: int = 0) -> list[int]:
    size = len(lists)
    seats = [lists[(seat - start_rank) % size] for seat in range(size)]
    steps = zip_longest(*seats)
    return [index for index in chain.from_iterable(steps) if index is not None]
