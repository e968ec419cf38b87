"""Failures that others had, with the right answers: each named after what it protects.

The numbers are those of the public reports; the laws behind them are tested in `test_laws.py`.
`tests/README.md` says where each case is tested, and which answers the design overrules.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest

from elastic_sampler import (
    ElasticDistributedSampler,
    Permutation,
    ResumeWarning,
    State,
    World,
    simulate,
)


def deal(n: Any, size: int, state: dict[str, Any] | None = None, **kwargs: Any) -> list[list[int]]:
    """What each rank gets."""
    dealt = []
    for rank in range(size):
        sampler = ElasticDistributedSampler(n, world=World(rank, size), **kwargs)
        if state is not None:
            sampler.load_state_dict(state)
        promised = len(sampler)
        dealt.append(list(sampler))
        assert promised == len(dealt[-1])
    return dealt


def at(position: int, n: int, **changes: Any) -> dict[str, Any]:
    return State(0, position, n, 0, "sequential", 0 if position else None).to_dict() | changes


def sizes(dealt: list[list[int]]) -> list[int]:
    return [len(share) for share in dealt]


# A. Order.


def test_ranks_with_different_seeds_can_be_told_apart_and_the_default_is_a_constant() -> None:
    union = deal(16, 2, shuffle=True)
    assert list(range(16)) == sorted(chain(*union))

    prints = {
        ElasticDistributedSampler(16, shuffle=True, seed=s, world=World(0, 2)).fingerprint()
        for s in (0, 7)
    }
    assert 2 == len(prints)


def test_another_seed_is_another_order_and_the_same_seed_the_same() -> None:
    assert deal(100, 1, shuffle=True, seed=1) != deal(100, 1, shuffle=True, seed=2)
    assert deal(100, 1, shuffle=True, seed=1) == deal(100, 1, shuffle=True, seed=1)


def test_seed_0_in_epoch_1_is_not_seed_1_in_epoch_0() -> None:
    one = deal(1000, 1, shuffle=True, seed=0, start_epoch=1)
    assert one != deal(1000, 1, shuffle=True, seed=1, start_epoch=0)


def test_the_order_of_an_epoch_does_not_depend_on_the_path_taken_to_it() -> None:
    walked = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))
    orders = []
    for epoch in range(4):
        walked.set_epoch(epoch)
        orders.append(list(walked))
    jumped = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))
    jumped.set_epoch(3)

    assert orders[3] == list(jumped)
    assert 4 == len(set(map(tuple, orders)))


def test_a_given_order_is_dealt_as_it_is_and_never_shuffled_again() -> None:
    inner = [9, 7, 5, 3, 1, 8, 6, 4, 2, 0]

    assert [[9, 5, 1, 6, 2], [7, 3, 8, 4, 0]] == deal(10, 2, order=lambda epoch: inner)


def test_the_shuffle_is_uniform_above_a_billion_samples() -> None:
    n = 3 * 2**30
    order = Permutation(n, 0, 0)
    for first in (0, n // 10 * 9):
        window = order[first : first + 30_000]
        thirds = [sum(sample // 2**30 == third for sample in window) for third in range(3)]
        assert 30_000 == len(set(window))
        assert all(abs(found - 10_000) < 400 for found in thirds)


# B. Coverage.


@pytest.mark.parametrize(
    ("tail", "expected", "padding"),
    [
        ("uneven", [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]], [0, 0, 0, 0]),
        ("wrap", [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]], [0, 0, 1, 1]),
        ("fill", [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]], [0, 0, 1, 1]),
        ("drop", [[0, 4], [1, 5], [2, 6], [3, 7]], [0, 0, 0, 0]),
    ],
)
def test_evaluation_need_not_count_samples_twice_and_padding_can_be_told(
    tail: Any, expected: list[list[int]], padding: list[int]
) -> None:
    assert expected == deal(10, 4, tail=tail)
    shares = [
        ElasticDistributedSampler(10, tail=tail, world=World(rank, 4)).share() for rank in range(4)
    ]
    assert padding == [share.padding for share in shares]


def test_an_uneven_split_of_103_over_4_loses_nothing() -> None:
    dealt = deal(103, 4, tail="uneven")

    assert [26, 26, 26, 25] == sizes(dealt)
    assert [100, 101, 102, 99] == [share[-1] for share in dealt]


@pytest.mark.parametrize(
    ("n", "size", "wrapped"),
    [
        (3, 7, [0, 1, 2, 0, 1, 2, 0]),
        (4, 9, [0, 1, 2, 3, 0, 1, 2, 3, 0]),
        (3, 8, [0, 1, 2, 0, 1, 2, 0, 1]),
        (2, 5, [0, 1, 0, 1, 0]),
    ],
)
def test_fewer_samples_than_ranks_wrap_as_often_as_need_be(
    n: int, size: int, wrapped: list[int]
) -> None:
    assert [[index] for index in wrapped] == deal(n, size)
    assert [[]] * size == deal(n, size, tail="drop")
    assert [[rank] if rank < n else [] for rank in range(size)] == deal(n, size, tail="uneven")


def test_fewer_samples_than_ranks_are_left_after_a_resume() -> None:
    assert [[9], [0], [1], [2]] == deal(10, 4, at(9, 10))
    assert [[], [], [], []] == deal(10, 4, at(9, 10), tail="drop")
    assert [[9], [], [], []] == deal(10, 4, at(9, 10), tail="uneven")


@pytest.mark.parametrize("tail", ["wrap", "drop", "uneven", "fill"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 4])
def test_an_empty_dataset_is_an_empty_epoch_on_every_rank(
    tail: Any, shuffle: bool, size: int
) -> None:
    assert [[]] * size == deal(0, size, tail=tail, shuffle=shuffle)
    assert [[]] * size == deal([], size, tail=tail, shuffle=shuffle)


def test_the_dropped_tail_is_another_one_in_every_shuffled_epoch() -> None:
    seen = set()
    for epoch in range(50):
        dealt = deal(10, 4, tail="drop", shuffle=True, start_epoch=epoch)
        assert 8 == len({*chain(*dealt)})
        seen |= {*chain(*dealt)}

    assert set(range(10)) == seen


def test_a_remainder_is_not_lost_to_integer_division() -> None:
    assert [4, 3, 3] == sizes(deal(10, 3, tail="uneven"))
    assert [1, 1, 0] == sizes(deal(2, 3, tail="uneven"))
    assert [4, 4, 4] == sizes(deal(10, 3))
    assert [1, 1, 1] == sizes(deal(2, 3))
    assert [13, 13] == sizes(deal(25, 2))
    assert [12, 12] == sizes(deal(25, 2, tail="drop"))
    assert [[0], [0]] == deal(1, 2)


def test_progress_counts_places_and_not_the_set_of_samples() -> None:
    iterators = [iter(ElasticDistributedSampler(3, world=World(rank, 4))) for rank in range(4)]
    assert [0, 1, 2, 0] == [next(iterator) for iterator in iterators]

    assert 3 == iterators[0].state_dict()["position"]


# C. Resume.


def test_a_position_at_or_past_the_end_is_a_finished_epoch() -> None:
    for position in (100_000, 100_032):
        state = at(position, 100_000)
        sampler = ElasticDistributedSampler(100_000, world=World(3, 8))
        sampler.load_state_dict(state)

        assert 12_500 == len(sampler)
        assert 1 == sampler.epoch
        with pytest.warns(ResumeWarning, match="nothing is left"):
            sampler.set_epoch(0)
        assert 0 == len(sampler)
        assert [] == list(sampler)


def test_a_resume_cuts_the_order_and_does_not_shuffle_the_rest_of_the_range() -> None:
    backwards = [7, 6, 5, 4, 3, 2, 1, 0]
    name = ElasticDistributedSampler(8, order=lambda epoch: backwards).state_dict()["order"]

    state = at(3, 8, order=name)
    assert [[4, 3, 2, 1, 0]] == deal(8, 1, state, order=lambda epoch: backwards)


def test_a_shrink_from_8_to_6_does_not_leak_into_the_next_epoch() -> None:
    for tail, rest in (("wrap", 534), ("drop", 533)):
        sampler = ElasticDistributedSampler(60_000, tail=tail, world=World(0, 6))  # type: ignore[arg-type]
        sampler.load_state_dict(at(56_800, 60_000))
        counts = []
        for _ in sampler.epochs(2):
            counts.append((len(sampler), len(list(sampler))))

        assert [(rest, rest), (10_000, 10_000)] == counts


def test_a_position_need_not_be_a_multiple_of_the_new_world_size() -> None:
    dealt = deal(100, 3, at(64, 100), tail="uneven")

    assert [64, 65, 66] == [share[0] for share in dealt]
    assert [12, 12, 12] == sizes(dealt)
    assert list(range(64, 100)) == sorted(chain(*dealt))


def test_a_resume_offset_does_not_apply_to_later_epochs() -> None:
    sampler = ElasticDistributedSampler(8, world=World(0, 1))
    sampler.load_state_dict(at(5, 8, epoch=2))
    assert [3, 8, 8] == [len(list(sampler)) for _ in sampler.epochs(5)]

    sampler.load_state_dict(at(5, 8, epoch=2))
    with pytest.warns(ResumeWarning):
        sampler.set_epoch(3)
    assert 8 == len(list(sampler))


def test_a_checkpoint_at_the_very_end_of_an_epoch_adds_and_loses_none() -> None:
    sampler = ElasticDistributedSampler(512, world=World(0, 1))
    trained = len(list(sampler))
    resumed = ElasticDistributedSampler(512, world=World(0, 1))
    resumed.load_state_dict(sampler.state_dict())
    for _ in resumed.epochs(3):
        trained += len(list(resumed))

    assert 3 * 512 == trained


def test_a_position_inside_the_fill_is_a_finished_epoch() -> None:
    assert [16] * 32 == sizes(deal(500, 32))
    for position in (504, 512):
        sampler = ElasticDistributedSampler(500, world=World(0, 32))
        sampler.load_state_dict(at(position, 500))
        assert 1 == sampler.epoch


def test_a_second_resume_does_not_forget_the_first() -> None:
    size, state = 4, None
    for steps in (30, 10):
        iterators = []
        for rank in range(size):
            sampler = ElasticDistributedSampler(1000, world=World(rank, size))
            if state is not None:
                sampler.load_state_dict(state)
            iterators.append(iter(sampler))
        for _ in range(steps):
            for iterator in iterators:
                next(iterator)
        state = json.loads(json.dumps(iterators[0].state_dict()))

    assert state is not None
    assert 160 == state["position"]
    assert [160, 161, 162, 163] == [share[0] for share in deal(1000, size, state)]


def test_the_count_after_a_load_is_not_one_too_high() -> None:
    iterator = iter(ElasticDistributedSampler(10, world=World(0, 1)))
    for _ in range(3):
        next(iterator)
    sampler = ElasticDistributedSampler(10, world=World(0, 1))
    sampler.load_state_dict(iterator.state_dict())
    resumed = iter(sampler)
    next(resumed)

    assert 4 == resumed.state_dict()["position"]


def test_the_epoch_is_in_the_state_and_not_only_the_position() -> None:
    saved = []
    for rank in range(2):
        sampler = ElasticDistributedSampler(10, shuffle=True, world=World(rank, 2))
        sampler.set_epoch(1)
        iterator = iter(sampler)
        next(iterator)
        saved.append((iterator.state_dict(), list(iterator)))

    assert [rest for _, rest in saved] == deal(10, 2, saved[0][0], shuffle=True)


def test_a_count_of_one_rank_is_not_used_at_another_world_size() -> None:
    iterator = iter(ElasticDistributedSampler(12, world=World(0, 2)))
    for _ in range(3):
        next(iterator)

    assert [[6, 9], [7, 10], [8, 11]] == deal(12, 3, iterator.state_dict())


def test_the_state_of_one_rank_stands_for_all() -> None:
    iterators = [
        iter(ElasticDistributedSampler(12, shuffle=True, world=World(rank, 4))) for rank in range(4)
    ]
    seen = [next(iterator) for iterator in iterators]
    states = [iterator.state_dict() for iterator in iterators]

    assert {} == State.compare(states)
    dealt = deal(12, 4, states[0], shuffle=True)
    assert [2, 2, 2, 2] == sizes(dealt)
    assert list(range(12)) == sorted([*seen, *chain(*dealt)])


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_growing_and_shrinking_forget_no_ranks_progress(size: int) -> None:
    dealt = deal(64, size, at(24, 64))

    assert [40 // size] * size == sizes(dealt)
    assert list(range(24, 64)) == sorted(chain(*dealt))
    assert [14, 14, 14] == sizes(deal(64, 3, at(24, 64)))
    assert [13, 13, 13] == sizes(deal(64, 3, at(24, 64), tail="drop"))
    assert [14, 13, 13] == sizes(deal(64, 3, at(24, 64), tail="uneven"))


def test_what_a_dead_rank_trained_is_not_trained_again() -> None:
    assert [[8, 11], [9], [10]] == deal(12, 3, at(8, 12), tail="uneven")


def test_a_graceful_scale_event_does_not_restart_the_epoch() -> None:
    world = [World(0, 2)]
    sampler = ElasticDistributedSampler(1000, world=lambda: world[0])
    iterator = iter(sampler)
    for _ in range(8):
        next(iterator)
    sampler.load_state_dict(iterator.state_dict())
    world[0] = World(1, 2)

    assert [17, 19, 21] == [index for index, _ in zip(sampler, range(3), strict=False)]


def test_the_epoch_comes_from_the_state_and_not_from_steps_and_world_size() -> None:
    wide = ElasticDistributedSampler(1024, world=World(0, 256))
    for _ in wide.epochs(2):
        list(wide)
    narrow = ElasticDistributedSampler(1024, world=World(0, 1))
    narrow.load_state_dict(wide.state_dict())
    assert (2, 1024) == (narrow.epoch, len(narrow))

    for size in (4, 5):
        dealt = deal(103, size, at(96, 103), tail="drop")
        assert [7 // size] * size == sizes(dealt)


def test_positions_count_samples_and_not_steps() -> None:
    report = simulate(4800, [(8, 300), 24])

    assert [2400, 4800] == [found.stop for found in report.rounds]
    assert 100 == report.rounds[1].steps
    assert (4800, 0) == (report.seen, report.repeated)


def test_what_is_left_is_no_plan_of_buckets_per_rank() -> None:
    taken = [i for share in simulate(16, [(2, 2)]).rounds[0].shares for i in share]

    rest = list(chain(*deal(16, 4, at(4, 16))))
    assert list(range(16)) == sorted(taken + rest)


def test_a_framework_that_sets_epoch_0_on_a_restored_sampler_is_told() -> None:
    sampler = ElasticDistributedSampler(500, shuffle=True, world=World(0, 1))
    state = at(75, 500, epoch=1, order="shuffled/1")
    sampler.load_state_dict(state)
    sampler.set_epoch(1)
    assert 425 == len(sampler)

    sampler.load_state_dict(state)
    with pytest.warns(ResumeWarning, match="epoch 1.*position 75 is given up"):
        sampler.set_epoch(0)
    assert 500 == len(sampler)


def test_a_resumed_epoch_that_is_finished_is_not_run_again() -> None:
    sampler = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))
    sampler.load_state_dict(at(30, 100, epoch=2, order="shuffled/1"))
    list(sampler)

    state = sampler.state_dict()
    assert (2, 100) == (state["epoch"], state["position"])
    again = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))
    again.load_state_dict(state)
    assert 3 == again.epoch


def test_shares_are_cut_for_the_ranks_that_are_there() -> None:
    world = [World(0, 3)]
    sampler = ElasticDistributedSampler(12, world=lambda: world[0])
    lost = {*range(12)} - {*sampler.share()} - {1, 4, 7, 10}
    assert {2, 5, 8, 11} == lost  # rank 2 is absent, and nobody was told

    world[0] = World(0, 2)
    for position in (0, 6):
        dealt = deal(12, 2, at(position, 12))
        assert list(range(position, 12)) == sorted(chain(*dealt))


def test_breaking_out_of_a_pass_does_the_same_in_every_pass() -> None:
    sampler = ElasticDistributedSampler(10, world=World(0, 1))
    passes = [[i for i, _ in zip(sampler, range(4), strict=False)] for _ in range(3)]
    assert [[0, 1, 2, 3]] * 3 == passes

    iterator = iter(sampler)
    taken = [next(iterator), next(iterator)]
    sampler.load_state_dict(at(8, 10))
    assert [0, 1, 2] == [*taken, next(iterator)]
    assert [8, 9] == list(sampler)


def test_resuming_a_billion_samples_walks_over_none_of_them() -> None:
    sampler = ElasticDistributedSampler(10**9, shuffle=True, world=World(7, 8))
    sampler.load_state_dict(at(5 * 10**8, 10**9, order="shuffled/1"))

    assert Permutation(10**9, 0, 0)[5 * 10**8 + 7] == next(iter(sampler))


def test_position_and_epoch_can_be_read_before_the_first_next() -> None:
    sampler = ElasticDistributedSampler(100, world=World(0, 1))
    sampler.load_state_dict(at(40, 100))

    assert (0, 40) == (sampler.epoch, sampler.position)


def test_a_rank_above_0_gets_its_own_part_whatever_its_local_rank() -> None:
    assert [4, 12] == list(ElasticDistributedSampler(16, world=World(4, 8)))
    shares = [
        list(ElasticDistributedSampler(8, world=World(process // 2, 4))) for process in range(8)
    ]
    assert [[0, 4], [0, 4], [1, 5], [1, 5], [2, 6], [2, 6], [3, 7], [3, 7]] == shares
