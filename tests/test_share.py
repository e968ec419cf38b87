"""Shares and orders: lazy sequences that behave like the lists they stand for."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import sample_counts, tails, world_sizes

from elastic_sampler import ElasticDistributedSampler, Permutation, Share, World
from elastic_sampler.order import name_of, read
from elastic_sampler.orders import Rotation, Sequential, Shuffled
from elastic_sampler.share import Tail, positions

indices = st.one_of(st.none(), st.integers(-30, 30))


@st.composite
def orders(draw: st.DrawFn) -> Any:
    n = draw(st.integers(1, 40))
    return draw(
        st.sampled_from(
            [
                range(n),
                range(7, 7 + 2 * n, 2),
                list(reversed(range(n))),
                Rotation(n, draw(st.integers(0, 100))),
                Permutation(n, 1, 2),
                Permutation(n, 1, 2, exact=0),
            ]
        )
    )


@st.composite
def shares(draw: st.DrawFn) -> Share:
    places = range(draw(st.integers(0, 60)), draw(st.integers(0, 90)), draw(st.integers(1, 50)))
    return Share(draw(orders()), places)


@given(shares(), indices, indices, st.integers(-4, 4).filter(bool))
def test_a_share_behaves_like_the_list_of_its_items(
    share: Share, start: int | None, stop: int | None, step: int
) -> None:
    n = len(share.order)
    items = [share.order[place % n] for place in share.places]
    part = slice(start, stop, step)

    assert items == list(share)
    assert len(items) == len(share)
    assert items == [share[i] for i in range(len(share))]
    assert items[part] == list(share[part])
    assert list(reversed(items)) == list(reversed(share))
    for sample in range(-1, 2 * n + 9):
        assert (sample in items) == (sample in share)
        assert (sample in items[part]) == (sample in share[part])
        if sample in items[part]:
            assert items[part].index(sample) == share[part].index(sample)


@given(shares(), st.integers(-4, 4).filter(bool))
def test_padding_counts_the_places_past_the_end(share: Share, step: int) -> None:
    part = share[::step]

    assert sum(place >= len(share.order) for place in part.places) == part.padding
    real = share[: len(share) - share.padding]
    assert 0 == real.padding


@given(sample_counts, world_sizes, tails, st.integers(0, 400))
def test_the_shares_of_all_seats_partition_what_is_left(
    n: int, size: int, tail: Tail, start: int
) -> None:
    places = sorted(
        place for seat in range(size) for place in positions(start, n, size, seat, tail)
    )

    assert list(range(start, start + len(places))) == places
    short = max(n - start, 0) - len(places)
    assert short == 0 or (tail == "drop" and 0 < short < size) or (short < 0 and -short < size)


@given(orders(), st.integers(0, 50), st.integers(0, 120), st.integers(1, 60))
def test_reading_wraps_around_as_often_as_need_be(
    order: Any, start: int, stop: int, step: int
) -> None:
    places = range(start, stop, step)

    assert [order[place % len(order)] for place in places] == read(order, places)
    assert read(order, places)[::-1] == read(order, places[::-1])


def test_items_of_foreign_orders_become_python_ints() -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    for order in (numpy.arange(10), [numpy.int64(i) for i in range(10)], [True] * 10):
        assert {int} == {type(index) for index in Share(order, range(0, 14, 3))}


def test_places_may_be_whole_batches() -> None:
    batches: Any = [[0, 1, 2], [3, 4], [5]]
    dealt: list[Any] = [
        list(ElasticDistributedSampler(6, order=lambda epoch: batches, world=World(rank, 2)))
        for rank in range(2)
    ]

    assert [[[0, 1, 2], [5]], [[3, 4], [0, 1, 2]]] == dealt


def test_an_order_whose_slices_are_wrong_is_found_out() -> None:
    class Short(list[int]):
        def __getitem__(self, item: Any) -> Any:
            return list(self)[item][:-1] if isinstance(item, slice) else list(self)[item]

    with pytest.raises(ValueError, match=r"order\[0:7:3\] must give 3 places, got 2"):
        list(Share(Short(range(9)), range(0, 9, 3))[0:3])


def test_places_must_be_positions_of_an_order_that_is_not_empty() -> None:
    with pytest.raises(ValueError, match="places must be positions, at least 0"):
        Share(range(5), range(-1, 3))
    with pytest.raises(ValueError, match="an order that is not empty"):
        Share([], range(3))
    assert [] == list(Share([], range(0)))


def test_an_index_outside_of_a_share_is_an_error_that_says_the_range() -> None:
    with pytest.raises(IndexError, match=r"share index must be in \[0, 3\), got 3"):
        Share(range(10), range(0, 9, 3))[3]
    with pytest.raises(ValueError, match="1 is not in this share"):
        Share(range(10), range(0, 9, 3)).index(1)


def test_a_share_of_a_trillion_is_a_value_of_a_few_bytes() -> None:
    tracemalloc.start()
    try:
        sampler = ElasticDistributedSampler(10**12, shuffle=True, world=World(3, 8))
        share = sampler.share()
        sample = share[10**11]
        found = share.index(sample), share[10:20:2].index(share[14]), (sample + 1) in share
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert (10**11, 2) == found[:2]
    assert 125 * 10**9 == len(share)
    assert share == pickle.loads(pickle.dumps(share))
    assert len(pickle.dumps(share)) < 400
    assert peak < 2 * 2**20


def test_orders_are_callables_from_epoch_to_sequence_with_a_name() -> None:
    assert range(5) == Sequential(5)(0) == Sequential(5)(7)
    assert Permutation(5, 3, 7) == Shuffled(5, 3)(7)
    assert "sequential" == name_of(Sequential(5))
    assert "shuffled/1 seed=3" == name_of(Shuffled(5, 3))
    assert f"{__name__}.custom" == name_of(custom)
    assert "functools.partial" == name_of(__import__("functools").partial(custom))


def custom(epoch: int) -> list[int]:
    return [epoch]
