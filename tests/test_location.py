"""Where a sample is dealt: what `locate` says is what the ranks then get."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import batch_sizes, sample_counts, start_ranks, tails, world_sizes
from walks import ranks_of

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    Location,
    Permutation,
    UnequalSharesWarning,
    World,
)
from elastic_sampler.orders import FromSampler, Grouped, Mixture, Weighted
from elastic_sampler.share import Tail


def told(found: list[Location]) -> list[tuple[int, int]]:
    return [(f.step, f.rank) for f in found if f.step is not None and f.rank is not None]


@given(sample_counts, st.integers(0, 300), world_sizes, tails, st.booleans(), start_ranks)
def test_a_sample_is_dealt_where_locate_says_and_nowhere_else(
    n: int, start: int, size: int, tail: Tail, shuffle: bool, start_rank: int
) -> None:
    ranks = ranks_of(n, size, tail=tail, shuffle=shuffle, start_rank=start_rank, start_epoch=3)
    if 0 < start < n:
        state = {**ranks[0].state_dict(), "position": start, "origin": 0}
        for sampler in ranks:
            sampler.load_state_dict(state)
    lists = [list(sampler.share()) for sampler in ranks]

    for sample in range(0, n, max(1, n // 7)):
        dealt = [
            (step, rank)
            for rank, share in enumerate(lists)
            for step, found in enumerate(share)
            if found == sample
        ]
        for sampler in ranks[:2]:  # whoever is asked
            assert sorted(dealt) == sorted(told(sampler.locate(sample)))
            places = [found.position for found in sampler.locate(sample)]
            assert sorted(places) == places
            assert not shuffle or {sample} == {Permutation(n, 0, 3)[p % n] for p in places}


@given(sample_counts, world_sizes, batch_sizes, tails, st.booleans())
def test_a_sample_is_in_the_global_batch_that_locate_says(
    n: int, size: int, per_rank: int, tail: Tail, shuffle: bool
) -> None:
    samplers = ranks_of(n, size, tail=tail, shuffle=shuffle)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnequalSharesWarning)
        batches = [ElasticBatchSampler(sampler, size + per_rank) for sampler in samplers]
    parts = [list(b.share()) for b in batches]

    for sample in range(0, n, max(1, n // 7)):
        dealt = [
            (step, rank)
            for rank, part in enumerate(parts)
            for step, batch in enumerate(part)
            for found in batch
            if found == sample
        ]
        assert sorted(dealt) == sorted(told(batches[-1].locate(sample)))


def test_what_was_dealt_before_has_a_position_and_no_rank() -> None:
    (sampler,) = ranks_of(100, 1, shuffle=True)
    sampler.advance(60)
    order = sampler.share().order
    state = sampler.state_dict()
    resumed = ElasticDistributedSampler(100, shuffle=True, world=World(1, 4))
    resumed.load_state_dict(state)

    assert [Location(0, 20)] == resumed.locate(order[20])
    assert [Location(0, 62, 0, 2)] == resumed.locate(order[62])
    assert [] == resumed.locate(100)
    assert [] == resumed.locate(-1)


def test_other_epochs_are_told_too_those_to_come_with_the_world_as_it_is() -> None:
    sampler = ElasticDistributedSampler(100, shuffle=True, start_epoch=2, world=World(0, 3))
    order = sampler.share().order
    (later,), (earlier,) = sampler.locate(7, epoch=5), sampler.locate(7, epoch=1)

    sampler.set_epoch(5)
    assert 7 == sampler.share().order[later.position]
    assert (later.step, later.rank) == divmod(later.position, 3)
    assert (None, None) == (earlier.step, earlier.rank)
    sampler.set_epoch(2)
    assert order == sampler.share().order


def test_a_dropped_sample_has_a_position_and_no_rank() -> None:
    (sampler,) = ranks_of(10, 4, tail="drop")[:1]

    assert [Location(0, 9)] == sampler.locate(9)
    assert [Location(0, 7, 1, 3)] == sampler.locate(7)


def test_draws_that_repeat_and_samples_in_batches_are_all_found() -> None:
    weighted = ElasticDistributedSampler(0, order=Weighted([1, 9], 50), world=World(0, 2))
    draws = weighted.share().order
    assert [p for p in range(50) if draws[p] == 1] == [f.position for f in weighted.locate(1)]

    order: Any = Grouped([i % 3 for i in range(60)], 4, seed=1)
    grouped = ElasticDistributedSampler(0, order=order, world=World(0, 2))
    (found,) = grouped.locate(17)
    assert 17 in order(0)[found.position]

    mixture = Mixture({"a": (10**12, 3), "b": (10**6, 1)}, 12 * 10**6, seed=0)
    mixed = ElasticDistributedSampler(0, order=mixture, world=World(5, 8))
    places = mixed.share().order
    assert [10**12 + 5] * 3 == [places[f.position] for f in mixed.locate(10**12 + 5)]


def test_looking_at_another_epoch_does_not_make_the_order_of_this_one_again() -> None:
    class Counting:
        passes = 0

        def __iter__(self) -> Any:
            self.passes += 1
            return iter(range(9))

    inner = Counting()
    sampler = ElasticDistributedSampler(0, order=FromSampler(inner), world=World(0, 1))
    before = sampler.state_dict()
    for epoch in (None, 1, 0, 1):
        assert 1 == len(sampler.locate(4, epoch=epoch))
    assert 2 == inner.passes
    assert before == sampler.state_dict()
    with pytest.raises(ValueError, match="epoch must be at least 0, got -1"):
        sampler.locate(4, epoch=-1)
