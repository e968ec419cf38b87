"""The sampler's decisions in detail: resume points, epochs, iterators, states, arguments."""

from __future__ import annotations

import gc
import pickle
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from elastic_sampler import (
    ElasticDistributedSampler,
    IssuedNotTrainedWarning,
    RepeatedEpochWarning,
    ResumeWarning,
    State,
    StateError,
    World,
    arrays,
)


def lone(n: Any = 10, **kwargs: Any) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(n, **{"world": World(0, 1), **kwargs})


def take(iterator: Iterator[int], count: int) -> list[int]:
    return [next(iterator) for _ in range(count)]


def middle(position: int, epoch: int = 0, n: int = 10, **changes: Any) -> dict[str, Any]:
    return State(epoch, position, n, 0, "sequential", 0 if position else None).to_dict() | changes


# Resume points.


def test_peeking_does_not_move_the_resume_point() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6))

    assert 6 == next(iter(sampler))
    assert 6 == next(iter(sampler))
    assert 4 == len(sampler)
    assert [6, 7, 8, 9] == list(sampler)


def test_two_iterators_at_once_do_not_disturb_each_other() -> None:
    sampler = lone(4)

    assert [(a, b) for a in range(4) for b in range(4)] == [
        (a, b) for a in sampler for b in sampler
    ]


def test_a_resume_offset_applies_once() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6, epoch=0))

    assert [6, 7, 8, 9] == list(sampler)
    assert list(range(10)) == list(sampler)
    assert 10 == len(sampler)


def test_an_offset_that_was_drawn_to_the_last_place_without_asking_for_more_is_used_up() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6))
    iterator = iter(sampler)

    assert [6, 7, 8, 9] == take(iterator, 4)
    assert 10 == sampler.state_dict()["position"] == len(sampler)
    assert 0 == next(iter(sampler))


def test_another_epoch_starts_at_its_beginning_and_the_same_keeps_a_loaded_position() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6, epoch=2))
    sampler.set_epoch(2)
    assert [6, 7, 8, 9] == list(sampler)

    sampler.set_epoch(3)
    assert [3, 4, 5, 6, 7, 8, 9, 0, 1, 2] == list(sampler)

    sampler.load_state_dict(middle(6, epoch=2))
    with pytest.warns(ResumeWarning):
        sampler.set_epoch(3)
    assert [3, 4, 5, 6, 7, 8, 9, 0, 1, 2] == list(sampler)


def test_a_loaded_position_that_is_given_up_before_anything_was_drawn_is_told() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6, epoch=2))
    for epoch in sampler.epochs(3):
        # As loaders do it that set the epoch to the number of their own passes.
        with pytest.warns(ResumeWarning, match=r"set_epoch\(0\).*epoch 2.*position 6 is given up"):
            sampler.set_epoch(epoch - 2)


def test_an_epoch_that_was_continued_in_any_way_may_be_followed_by_any_other() -> None:
    ways: list[Callable[[ElasticDistributedSampler], object]] = [
        lambda sampler: next(iter(sampler)),
        lambda sampler: sampler.share(),
        lambda sampler: sampler.advance(),
    ]
    for go_on in ways:
        sampler = lone()
        sampler.load_state_dict(middle(6, epoch=2))
        sampler.set_epoch(2)
        go_on(sampler)
        sampler.set_epoch(7)
        assert (7, 0) == (sampler.epoch, sampler.position)

    sampler.load_state_dict(middle(6, epoch=2))
    assert [2, 3, 4] == list(sampler.epochs(5))  # though nothing was drawn


def test_a_running_iterator_keeps_its_own_epoch_world_and_length_to_the_end() -> None:
    world, data = [World(0, 2)], list(range(8))
    sampler = ElasticDistributedSampler(data, world=lambda: world[0])
    iterator = iter(sampler)
    assert [0, 2] == take(iterator, 2)

    world[0] = World(0, 1)
    data.append(8)
    sampler.set_epoch(1)
    assert [4, 6] == list(iterator)
    assert [1, 2, 3, 4, 5, 6, 7, 8, 0] == list(sampler)


def test_iterators_from_before_a_load_or_another_epoch_no_longer_count() -> None:
    sampler = lone()
    older = iter(sampler)
    take(older, 3)
    sampler.load_state_dict(middle(6))
    assert 6 == sampler.state_dict()["position"]
    assert [3, 4, 5, 6, 7, 8, 9] == list(older)
    assert 6 == sampler.state_dict()["position"]

    not_begun = iter(sampler)
    sampler.set_epoch(0)
    with pytest.warns(ResumeWarning):
        sampler.set_epoch(4)
    assert [6, 7, 8, 9] == list(not_begun)
    assert (4, 0) == (sampler.state_dict()["epoch"], sampler.state_dict()["position"])


def test_the_most_recent_iteration_is_the_one_that_took_its_first_index_last() -> None:
    sampler = lone()
    first, second = iter(sampler), iter(sampler)
    take(second, 5)
    take(first, 2)
    with pytest.warns(IssuedNotTrainedWarning):
        assert 2 == sampler.state_dict()["position"]

    take(second, 1)
    assert 2 == sampler.state_dict()["position"]


# The end of an epoch.


@pytest.mark.parametrize("tail", ["wrap", "drop", "uneven", "fill"])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_an_exhausted_iteration_has_finished_its_epoch_on_every_rank(tail: Any, n: int) -> None:
    for rank in range(4):
        sampler = lone(n, tail=tail, world=World(rank, 4))
        list(sampler)

        assert (0, n) == (sampler.state_dict()["epoch"], sampler.state_dict()["position"])


def test_an_epoch_of_no_samples_is_never_finished() -> None:
    sampler = lone(0)

    assert [] == list(sampler) == list(sampler)
    assert State(0, 0, 0, 0, "sequential", None).to_dict() == sampler.state_dict()
    sampler.load_state_dict(sampler.state_dict())
    assert 0 == sampler.epoch


@pytest.mark.parametrize("position", [10, 11, 2**63 - 1])
def test_loading_a_finished_state_moves_on_to_the_next_epoch(position: int) -> None:
    sampler = lone()
    sampler.load_state_dict(middle(position, epoch=2))

    assert 3 == sampler.epoch
    assert 10 == len(sampler)
    assert middle(position, epoch=2) == sampler.state_dict()  # nothing was consumed since
    assert [3, 4, 5, 6, 7, 8, 9, 0, 1, 2] == list(sampler)
    assert middle(10, epoch=3, origin=3) == sampler.state_dict()


def test_setting_the_epoch_after_a_finished_one_says_so_in_the_state() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(10, epoch=2))
    sampler.set_epoch(3)

    assert middle(0, epoch=3) == sampler.state_dict()


def test_going_back_to_a_finished_epoch_leaves_nothing_there_once_with_a_warning() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(10, epoch=2))
    with pytest.warns(ResumeWarning, match=r"set_epoch\(2\).*had finished epoch 2.*set_epoch\(3\)"):
        sampler.set_epoch(2)

    assert 0 == len(sampler)
    assert middle(10, epoch=2) == sampler.state_dict()
    assert [] == list(sampler)
    assert 10 == len(sampler)
    assert [2, 3, 4, 5, 6, 7, 8, 9, 0, 1] == list(sampler)


def test_a_loop_with_its_own_epoch_counter_does_not_train_a_finished_epoch_twice() -> None:
    sampler = lone()
    sampler.load_state_dict(middle(10, epoch=0))
    seen = []
    with pytest.warns(ResumeWarning):
        for epoch in range(3):
            sampler.set_epoch(epoch)
            seen.append(len(list(sampler)))

    assert [0, 10, 10] == seen


@pytest.mark.parametrize(("position", "epoch"), [(6, 0), (6, 5), (10, 0), (10, 4)])
def test_the_first_epoch_set_after_a_load_that_does_not_continue_it_warns_with_both_numbers(
    position: int, epoch: int
) -> None:
    sampler = lone()
    sampler.load_state_dict(middle(position, epoch=2))
    with pytest.warns(ResumeWarning, match=rf"set_epoch\({epoch}\).*epoch 2"):
        sampler.set_epoch(epoch)

    assert 10 == len(sampler)
    sampler.set_epoch(7)  # the second one is the user's business


def test_epochs_starts_where_a_loaded_state_left_off_and_sets_each_epoch() -> None:
    for position, expected in ((6, [(2, 4), (3, 10)]), (10, [(3, 10)]), (0, [(2, 10), (3, 10)])):
        sampler = lone()
        sampler.load_state_dict(middle(position, epoch=2))

        assert expected == [(epoch, len(list(sampler))) for epoch in sampler.epochs(4)]
    assert [] == list(sampler.epochs(4))
    assert [4] == list(sampler.epochs(5))


def test_a_shuffled_epoch_iterated_to_its_end_twice_warns_once_naming_the_cure() -> None:
    sampler = lone(shuffle=True)
    first = list(sampler)
    with pytest.warns(RepeatedEpochWarning, match="set_epoch"):
        assert first == list(sampler)
    assert first == list(sampler)

    fresh = lone(shuffle=True)
    for epoch in (0, 0, 1):
        fresh.set_epoch(epoch)  # said by the user: no warning
        list(fresh)
    unshuffled = lone()
    assert list(unshuffled) == list(unshuffled)


# States.


def test_a_state_loaded_and_read_back_is_the_same_and_the_last_load_wins() -> None:
    sampler = lone(100)
    for position, epoch in ((40, 3), (0, 1), (99, 0), (100, 7)):
        state = middle(position, epoch=epoch, n=100)
        sampler.load_state_dict(state)

        assert state == sampler.state_dict()


def test_a_state_in_the_middle_of_an_untracked_iteration_warns_once_and_names_track() -> None:
    sampler = lone()
    iterator = iter(sampler)
    sampler.state_dict()
    take(iterator, 3)
    with pytest.warns(IssuedNotTrainedWarning, match=r"sampler\.track\(loader\)"):
        assert 3 == sampler.state_dict()["position"]

    sampler.state_dict()
    list(iterator)
    assert 10 == sampler.state_dict()["position"]


def test_the_iterators_own_state_never_warns() -> None:
    iterator = iter(lone(world=World(0, 2)))

    assert 0 == iterator.state_dict()["position"]
    assert [2, 4, 6, 8, 10] == [iterator.state_dict()["position"] for _ in iterator]


def test_an_iterator_loads_a_state_before_its_first_next_only() -> None:
    sampler = lone()
    iterator = iter(sampler)
    iterator.load_state_dict(middle(7, epoch=2, origin=2))
    assert 0 == sampler.epoch
    assert [9, 0, 1] == list(iterator)
    assert middle(10, epoch=2, origin=2) == sampler.state_dict()
    assert 2 == sampler.epoch

    with pytest.raises(RuntimeError, match=r"before the first next\(\)"):
        iterator.load_state_dict(middle(7))


def test_an_iterator_that_loads_a_finished_state_is_exhausted() -> None:
    iterator = iter(lone())
    iterator.load_state_dict(middle(10, epoch=1))

    assert [] == list(iterator)


def test_the_epoch_after_one_that_an_iterator_loaded_and_of_which_nothing_was_left_follows() -> (
    None
):
    # As loaders do it that begin a fresh iterator after one that they have loaded and found empty.
    for state, tail in ((middle(10, epoch=1), "wrap"), (middle(8, epoch=1), "drop")):
        sampler = lone(world=World(0, 4), tail=tail)
        iterator = iter(sampler)
        iterator.load_state_dict(state)
        assert [] == list(iterator)
        assert (1, 10) == (sampler.state_dict()["epoch"], sampler.position)
        assert (2, list(lone(world=World(0, 4), tail=tail, start_epoch=2))) == (
            sampler.epoch,
            list(sampler),
        )


def test_an_iterator_refuses_a_bad_state_and_stays_as_it_was() -> None:
    iterator = iter(lone())
    with pytest.raises(StateError):
        iterator.load_state_dict(middle(7, n=11))

    assert list(range(10)) == list(iterator)


def test_an_iterator_knows_how_much_is_left() -> None:
    iterator = iter(lone(1000))
    for taken in range(300):
        assert 1000 - taken == iterator.__length_hint__()
        next(iterator)
    assert 700 == len(list(iterator))


# Orders.


def test_a_custom_order_is_called_once_per_epoch_and_its_length_is_the_epochs() -> None:
    calls = []

    def order(epoch: int) -> list[int]:
        calls.append(epoch)
        return list(range(epoch, 12 + epoch))

    sampler = lone(99, order=order, shuffle=True, world=World(1, 5))
    assert 12 == sampler.num_samples
    assert [1, 6, 11] == list(sampler)
    assert 3 == len(sampler)
    sampler.set_epoch(3)
    assert [4, 9, 14] == list(sampler)
    assert [0, 3] == calls
    assert f"{__name__}.test_a_custom_order" in sampler.state_dict()["order"]


def test_a_custom_order_is_named_by_its_fingerprint() -> None:
    class Backwards:
        fingerprint = "backwards/1"

        def __call__(self, epoch: int) -> range:
            return range(9, -1, -1)

    sampler = lone(order=Backwards())
    sampler.load_state_dict(middle(3, order="backwards/1"))
    assert [6, 5, 4, 3, 2, 1, 0] == list(sampler)
    with pytest.raises(StateError, match=r"order of the state is 'forwards'.*'backwards/1'"):
        sampler.load_state_dict(middle(3, order="forwards"))


def test_draws_with_repeats_are_counted_by_places_and_not_by_samples() -> None:
    def order(epoch: int) -> list[int]:
        return [5, 5, 5, 2]

    iterator = iter(lone(order=order))
    take(iterator, 2)

    resumed = lone(order=order)
    resumed.load_state_dict(iterator.state_dict())
    assert [5, 2] == list(resumed)


def test_the_length_of_the_dataset_is_read_when_an_iteration_begins() -> None:
    data = [0] * 10
    sampler = lone(data, world=World(0, 2))
    lengths: list[tuple[int, int, int]] = []
    for size in (10, 14, 6):
        data[:] = [0] * size
        sampler.set_epoch(len(lengths))
        lengths.append((len(sampler), len(list(sampler)), sampler.num_samples))

    assert [(5, 5, 10), (7, 7, 14), (3, 3, 6)] == lengths


def test_a_dataset_that_changes_inside_a_loaded_epoch_is_an_error() -> None:
    data = [0] * 10
    sampler = lone(data)
    sampler.load_state_dict(middle(4))
    data.append(0)

    with pytest.raises(StateError, match=r"num_samples is 11 now.*had 10.*set_epoch\(1\)"):
        iter(sampler)
    with pytest.warns(ResumeWarning):
        sampler.set_epoch(1)
    assert 11 == len(list(sampler))


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ({"dataset": object()}, TypeError, "dataset must have a len"),
        ({"dataset": 3.5}, TypeError, "dataset must have a len"),
        ({"dataset": True}, TypeError, "dataset must have a len"),
        ({"dataset": -1}, ValueError, "dataset must be at least 0, got -1"),
        ({"dataset": 2**62 + 1}, ValueError, r"dataset must be at most 2\*\*62"),
        ({"shuffle": 1}, TypeError, "shuffle must be True or False, got 1"),
        ({"seed": "0"}, TypeError, "seed must be an integer, got '0'"),
        ({"seed": None}, TypeError, "seed must be an integer, got None"),
        ({"start_rank": 0.5}, TypeError, "start_rank must be an integer"),
        ({"start_epoch": -1}, ValueError, "start_epoch must be at least 0, got -1"),
        ({"tail": "pad"}, ValueError, "tail must be one of 'wrap', 'drop', 'uneven', 'fill'"),
        ({"order": [1, 2]}, TypeError, "order must be a callable from epoch"),
        ({"world": 4}, TypeError, "world must be a World, the name of a provider"),
        ({"world": (0, 4)}, TypeError, "world must be a World, the name of a provider"),
    ],
)
def test_a_bad_argument_is_named_with_what_was_got(
    arguments: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        ElasticDistributedSampler(**{"dataset": 10, **arguments})


@pytest.mark.parametrize("epoch", [-1, True, "1", 1.0, None])
def test_a_bad_epoch_is_refused_and_nothing_changes(epoch: Any) -> None:
    sampler = lone()
    sampler.load_state_dict(middle(6, epoch=2))

    with pytest.raises((TypeError, ValueError), match="epoch must be"):
        sampler.set_epoch(epoch)
    assert [6, 7, 8, 9] == list(sampler)


def test_repr_shows_what_decides() -> None:
    sampler = lone(shuffle=True, seed=3, tail="drop", start_epoch=2)

    assert (
        "ElasticDistributedSampler(epoch=2, order='shuffled/1', seed=3, tail='drop', "
        "world=World(rank=0, size=1, source='given'))"
    ) == repr(sampler)


# Scale.


def test_a_trillion_samples_resume_at_99_percent_in_no_memory() -> None:
    n = 10**12
    arrays.numpy()  # its import is not what is measured
    tracemalloc.start()
    try:
        sampler = lone(n, shuffle=True, world=World(5, 8))
        state = {**sampler.state_dict(), "position": 99 * n // 100, "origin": 0}
        first = next(iter(sampler))
        sampler.load_state_dict(state)
        iterator = iter(sampler)
        taken = take(iterator, 1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 1000 == len(set(taken))
    assert n // 800 == len(sampler)
    assert 99 * n // 100 + 8000 == iterator.state_dict()["position"]
    assert 0 <= first < n
    assert peak < 2 * 2**20


@pytest.mark.parametrize(
    ("n", "size", "count", "last"),
    [
        (2**31 + 10, 3, [715827886] * 3, [2**31 + 7, 2**31 + 8, 2**31 + 9]),
        (2**32 + 1, 2, [2**31 + 1, 2**31], [2**32, 2**32 - 1]),
    ],
)
def test_nothing_overflows_32_bits(n: int, size: int, count: list[int], last: list[int]) -> None:
    shares = [lone(n, tail="uneven", world=World(rank, size)).share() for rank in range(size)]

    assert count == [len(share) for share in shares]
    assert last == [share[-1] for share in shares]


def test_no_container_grows_with_the_number_of_samples() -> None:
    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    before = objects()
    sampler = lone(35 * 10**8, shuffle=True)
    next(iter(sampler))

    assert objects() - before < 200
    assert len(pickle.dumps(sampler)) < 10_000


def test_global_random_generators_are_neither_read_nor_written() -> None:
    import random

    def run(sampler: ElasticDistributedSampler) -> list[int]:
        random.seed(len(sampler))
        return list(sampler)

    random.seed(5)
    expected = random.random()
    random.seed(5)
    full = list(lone(64, shuffle=True))
    assert expected == random.random()

    sampler = lone(64, shuffle=True)
    taken = take(iterator := iter(sampler), 20)
    resumed = lone(64, shuffle=True)
    resumed.load_state_dict(iterator.state_dict())
    assert full == taken + run(resumed)


# Pickles.


def test_a_pickle_carries_the_resume_point_and_not_the_running_iterators() -> None:
    sampler = lone(100, shuffle=True)
    sampler.load_state_dict(middle(40, n=100, order="shuffled/1"))
    rest = list(sampler.share())
    take(iter(sampler), 7)

    copy = pickle.loads(pickle.dumps(sampler))
    assert 40 == copy.state_dict()["position"]
    assert rest == list(copy)
    with pytest.warns(IssuedNotTrainedWarning):
        assert 47 == sampler.state_dict()["position"]


def warns_nothing(run: Callable[[], object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()


def test_a_finished_epoch_does_not_warn_about_what_was_issued() -> None:
    sampler = lone()
    list(sampler)
    warns_nothing(sampler.state_dict)
