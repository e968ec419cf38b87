"""The contract of the first specification (DESIGN, section 1), line by line."""

from __future__ import annotations

import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_sampler import ElasticDistributedSampler, World

sizes, ranks, numbers = st.integers(1, 20), st.integers(0, 19), st.integers(1, 100)


def test_the_class_takes_a_dataset_a_start_rank_and_a_start_epoch_by_name() -> None:
    parameters = inspect.signature(ElasticDistributedSampler).parameters

    assert "dataset" == next(iter(parameters))
    for name in ("start_rank", "start_epoch"):
        assert 0 == parameters[name].default
        assert inspect.Parameter.KEYWORD_ONLY is parameters[name].kind


def test_rank_and_world_size_are_read_at_iteration() -> None:
    now = [World(0, 1)]
    sampler = ElasticDistributedSampler(6, world=lambda: now[0])
    assert [0, 1, 2, 3, 4, 5] == list(sampler)

    now[0] = World(1, 3)
    assert [1, 4] == list(sampler)


def test_with_no_launcher_at_all_it_is_rank_0_of_1() -> None:
    sampler = ElasticDistributedSampler(3)

    assert World(0, 1) == sampler.world
    assert [0, 1, 2] == list(sampler)
    assert "no provider answered; looked at" in sampler.world.source


@pytest.mark.parametrize("size", [0, -1, -8])
def test_a_world_size_of_0_or_less_is_a_value_error_that_says_so(size: int) -> None:
    sampler = ElasticDistributedSampler(3, world=lambda: World(0, size))

    with pytest.raises(ValueError, match=f"world size must be at least 1, got {size}"):
        iter(sampler)
    with pytest.raises(ValueError, match=f"world size must be at least 1, got {size}"):
        len(sampler)


@given(numbers, sizes, ranks, st.integers(0, 50))
def test_epoch_e_of_rank_r_is_r_plus_e_w_plus_k_w_modulo_n(
    n: int, size: int, rank: int, epoch: int
) -> None:
    rank %= size
    sampler = ElasticDistributedSampler(n, start_epoch=epoch, world=World(rank, size))

    steps = range(-(-n // size))
    assert [(rank + epoch * size + k * size) % n for k in steps] == list(sampler)


def test_the_repeated_samples_rotate_from_epoch_to_epoch() -> None:
    repeated = []
    for epoch in range(5):
        shares = [
            ElasticDistributedSampler(10, start_epoch=epoch, world=World(rank, 4)).share()
            for rank in range(4)
        ]
        repeated.append([i for share in shares for i in share[len(share) - share.padding :]])

    assert [[0, 1], [4, 5], [8, 9], [2, 3], [6, 7]] == repeated


@pytest.mark.parametrize("tail", ["drop", "uneven"])
def test_tails_that_repeat_nothing_never_rotate(tail: str) -> None:
    sampler = ElasticDistributedSampler(
        10,
        start_epoch=3,
        tail=tail,  # type: ignore[arg-type]
        world=World(1, 4),
    )

    assert [1, 5] + [9] * (tail == "uneven") == list(sampler)
    assert 0 == sampler.state_dict()["origin"]


def test_the_rotation_is_kept_in_the_state_through_every_resize_of_the_epoch() -> None:
    first = ElasticDistributedSampler(10, start_epoch=1, world=World(0, 4))
    assert first.state_dict()["origin"] is None
    iterator = iter(first)
    assert 4 == next(iterator)

    state = iterator.state_dict()
    assert (4, 4) == (state["position"], state["origin"])
    rest = []
    for rank in range(3):
        sampler = ElasticDistributedSampler(10, world=World(rank, 3))
        sampler.load_state_dict(state)
        rest.append(list(sampler))
    assert [[8, 1], [9, 2], [0, 3]] == rest


@given(numbers, sizes, ranks, st.integers(-30, 30))
def test_start_rank_turns_the_ranks(n: int, size: int, rank: int, start_rank: int) -> None:
    rank %= size
    turned = ElasticDistributedSampler(n, start_rank=start_rank, world=World(rank, size))
    seat = ElasticDistributedSampler(n, world=World((rank + start_rank) % size, size))

    assert list(seat) == list(turned)


@given(numbers, sizes, ranks, st.integers(0, 9))
def test_every_replica_sees_n_over_w_rounded_up_and_len_says_the_same(
    n: int, size: int, rank: int, epoch: int
) -> None:
    sampler = ElasticDistributedSampler(n, start_epoch=epoch, world=World(rank % size, size))

    assert -(-n // size) == len(sampler) == len(list(sampler)) == len(sampler)


@given(numbers, sizes, sizes, st.integers(0, 20))
def test_restarting_with_another_world_size_never_skips_or_repeats_beyond_the_tail(
    n: int, before: int, after: int, steps: int
) -> None:
    iterators = [
        iter(ElasticDistributedSampler(n, world=World(rank, before))) for rank in range(before)
    ]
    steps = min(steps, -(-n // before))
    seen = [next(iterator) for _ in range(steps) for iterator in iterators]
    if steps * before < n:
        for rank in range(after):
            sampler = ElasticDistributedSampler(n, world=World(rank, after))
            sampler.load_state_dict(iterators[0].state_dict())
            seen += sampler

    assert set(range(n)) == set(seen)
    assert len(seen) - n < max(before, after)
