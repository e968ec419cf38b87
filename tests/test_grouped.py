"""Batches of one group: whole, exactly once, within the budget, the same at every world size."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, seeds, world_sizes

from elastic_sampler import ElasticDistributedSampler, StateError, World
from elastic_sampler.orders import Grouped

groups_ = st.lists(st.sampled_from("abcde"), max_size=80)


@given(groups_, st.integers(1, 9), seeds, epochs, st.booleans())
def test_every_sample_is_in_one_batch_with_others_of_its_group(
    groups: list[str], size: int, seed: int, epoch: int, shuffle: bool
) -> None:
    batches = list(Grouped(groups, size, seed=seed, shuffle=shuffle)(epoch))

    assert list(range(len(groups))) == sorted(chain.from_iterable(batches))
    assert all(1 == len({groups[sample] for sample in batch}) for batch in batches)
    for group in set(groups):
        sizes = sorted(len(batch) for batch in batches if groups[batch[0]] == group)
        assert all(found == size for found in sizes[1:])
        assert 0 < sizes[0] <= size


@given(groups_, st.integers(1, 9), seeds, epochs)
def test_partial_batches_can_be_left_out(
    groups: list[str], size: int, seed: int, epoch: int
) -> None:
    batches = list(Grouped(groups, size, seed=seed, drop_last=True)(epoch))

    assert all(size == len(batch) for batch in batches)
    assert sum(groups.count(group) // size for group in set(groups)) == len(batches)
    dealt = list(chain.from_iterable(batches))
    assert len(dealt) == len(set(dealt))


@given(
    st.lists(st.integers(0, 100), max_size=80),
    st.integers(100, 500),
    st.integers(1, 12),
    seeds,
    epochs,
)
def test_no_batch_padded_to_its_longest_sample_has_more_tokens_than_the_budget(
    lengths: list[int], budget: int, buckets: int, seed: int, epoch: int
) -> None:
    batches = list(
        Grouped.by_length(lengths, token_budget=budget, buckets=buckets, seed=seed)(epoch)
    )

    assert list(range(len(lengths))) == sorted(chain.from_iterable(batches))
    assert all(max(lengths[s] for s in batch) * len(batch) <= budget for batch in batches)


def padding(lengths: list[int], batches: list[list[int]]) -> float:
    """Which part of the padded batches is padding."""
    whole = sum(max(lengths[s] for s in batch) * len(batch) for batch in batches)
    return 1 - sum(lengths) / whole


def test_batches_of_similar_length_have_little_padding() -> None:
    source = random.Random(0)
    lengths = [int(source.lognormvariate(4, 0.8)) + 1 for _ in range(10_000)]

    one = list(Grouped.by_length(lengths, batch_size=32, buckets=1)(0))
    many = list(Grouped.by_length(lengths, batch_size=32, buckets=32)(0))
    assert 0.6 < padding(lengths, one)
    assert padding(lengths, many) < 0.2
    # Batches in a row are of different buckets all the same.
    means = [sum(lengths[s] for s in batch) / len(batch) for batch in many[:32]]
    assert max(means) > 4 * min(means)


@given(groups_, world_sizes, seeds)
def test_the_list_of_batches_is_the_same_for_every_world_size(
    groups: list[str], size: int, seed: int
) -> None:
    order = Grouped(groups, 4, seed=seed)
    dealt: list[Any] = [
        list(ElasticDistributedSampler(0, order=order, tail="uneven", world=World(rank, size)))
        for rank in range(size)
    ]

    assert sorted(order(0)) == sorted(chain.from_iterable(dealt))


def test_epochs_shuffle_members_and_batches() -> None:
    order = Grouped([i % 3 for i in range(300)], 10, seed=0)
    first, second = list(order(0)), list(order(1))
    as_it_lies = list(Grouped([i % 3 for i in range(300)], 10, shuffle=False)(0))

    assert list(range(0, 30, 3)) == as_it_lies[0]
    assert not {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}
    assert len({batch[0] % 3 for batch in first[:10]}) > 1


def test_each_group_may_have_a_batch_size_of_its_own() -> None:
    order = Grouped("aaaabbbbbb", {"a": 2, "b": 3, "c": 9})

    assert {("a", 2), ("b", 3)} == {("aaaabbbbbb"[b[0]], len(b)) for b in order(0)}
    with pytest.raises(ValueError, match=r"one for each group, got none of \['b'\]"):
        Grouped("aabb", {"a": 2})


def test_a_batch_deep_in_an_epoch_is_found_and_resumed_without_the_others() -> None:
    order = Grouped([i % 7 for i in range(100_000)], 16, seed=3)
    expected = order(2)[5000]
    sampler = ElasticDistributedSampler(0, order=order, world=World(0, 1), start_epoch=2)
    sampler.load_state_dict({**sampler.state_dict(), "position": 5000, "origin": 0})
    iterator: Any = iter(sampler)

    assert expected == next(iterator)
    sampler.advance()
    assert [5000] == order(2).find(expected[7])
    state = {**sampler.state_dict(), "position": 5001}
    other = Grouped([i % 6 for i in range(100_000)], 16, seed=3)
    with pytest.raises(StateError, match="num_samples of the state is 6251"):
        ElasticDistributedSampler(0, order=other, world=World(0, 1)).load_state_dict(state)


def test_the_batches_are_what_they_were_when_checkpoints_were_saved() -> None:
    order = Grouped([i * i % 10 for i in range(50)], 6, seed=2**65)

    assert GOLDEN == list(order(4))[:3]
    assert "grouped/1 seed=36893488147419103232 groups=0e67000715c9" == order.fingerprint


GOLDEN = [
    [1, 19, 21, 11],
    [25, 35, 45, 15, 5],
    [18, 48, 12, 32],
]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Grouped("ab", 0), ValueError, "batch_size must be at least 1, got 0"),
        (lambda: Grouped("ab", {"a": 1, "b": 0}), ValueError, r"batch_size\['b'\] must be at"),
        (
            lambda: Grouped("ab", 2, shuffle=cast("bool", 1)),
            TypeError,
            "shuffle must be True or False, got 1",
        ),
        (lambda: Grouped.by_length([1]), ValueError, "give either batch_size or token_budget"),
        (
            lambda: Grouped.by_length([1, 9, 3], token_budget=8),
            ValueError,
            "at least the longest sample, got 8 for 9 of sample 1",
        ),
        (
            lambda: Grouped.by_length([1, -9], batch_size=8),
            ValueError,
            r"lengths must be at least 0, got -9 at lengths\[1\]",
        ),
    ],
)
def test_bad_groups_are_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
