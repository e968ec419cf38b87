"""Mixtures: exact in every window, nothing repeated before all has come, on every rank."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, StateError, World
from elastic_sampler.orders import Draw, Mixture
from elastic_sampler.orders.turns import Cycle

weights_ = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)


@given(weights_, st.integers(0, 3))
def test_each_part_has_exactly_its_weight_of_each_period_and_nearly_of_any_stretch(
    weights: list[int], periods: int
) -> None:
    cycle = Cycle(tuple(weights))
    splits = max(1, (len(weights) - 1).bit_length())
    start = periods * cycle.period
    turns = [cycle.turn(place) for place in range(start, start + cycle.period)]

    for part, weight in enumerate(weights):
        mine = [turn for found, turn in turns if found == part]
        assert list(range(periods * weight, (periods + 1) * weight)) == mine
        count = 0
        for place, (found, _) in enumerate(turns):
            assert abs(count - place * weight / cycle.period) < splits
            assert count + periods * weight == cycle.count(part, start + place)
            count += found == part
        for turn in mine:
            assert (part, turn) == cycle.turn(cycle.place(part, turn))


@given(weights_, seeds, st.integers(0, 20), st.sampled_from([True, False]))
def test_every_window_of_a_period_is_exact_in_every_epoch(
    weights: list[int], seed: int, epoch: int, shuffle: bool
) -> None:
    parts = {str(i): (i + 3, weight) for i, weight in enumerate(weights)}
    order = Mixture(parts, seed=seed, shuffle=shuffle)
    drawn = order(epoch)
    period = order.period
    assert len(drawn) % period == 0
    for start in range(0, min(len(drawn), 5 * period), period):
        found = Counter(drawn.draw(p).part for p in range(start, start + period))
        assert {n: c for n, c in order.counts(epoch).items() if c} == dict(found)


@given(st.integers(1, 200), st.integers(1, 30), st.integers(1, 9), st.integers(1, 9), seeds)
def test_no_sample_of_a_part_comes_again_before_all_of_it_has_come_also_across_epochs(
    length: int, size: int, first: int, second: int, seed: int
) -> None:
    order = Mixture({"a": (size, first), "b": (100, second)}, length, seed=seed)
    epochs = 2 * order.period * 64 // length + 1
    turns: dict[int, int] = {}
    for epoch in range(min(epochs, 40)):
        drawn = order(epoch)
        for place in range(length):
            draw = drawn.draw(place)
            if draw.part == "a":
                assert draw.turn not in turns
                turns[draw.turn] = draw.index
    whole = [turns.get(turn) for turn in range(max(turns, default=0))]
    for start in range(0, len(whole) - size, size):
        mine = [index for index in whole[start : start + size] if index is not None]
        assert len(set(mine)) == len(mine)
    assert whole.count(None) < 64  # what the last window still holds


def test_the_default_epoch_deals_every_part_at_least_once_as_a_whole() -> None:
    order = Mixture({"big": (1000, 3), "small": (10, 1)}, seed=0)
    found = Counter(order(0))

    assert 1336 == len(order(0)) == found.total()
    assert set(range(1010)) == set(found)
    assert {33, 34} == {found[sample] for sample in range(1000, 1010)}
    assert {1, 2} == {found[sample] for sample in range(1000)}


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1_000_003, 999_983), (3, 1), (40, 60)])
def test_no_rank_gets_one_part_only(first: int, second: int) -> None:
    order = Mixture({"a": (10**6, first), "b": (10**6, second)}, 12_000, seed=1)
    part = first / (first + second)
    for size in (2, 4, 5, 8):
        for rank in range(size):
            sampler = ElasticDistributedSampler(0, order=order, world=World(rank, size))
            share = sampler.share()[:1000]
            found = sum(sample < 10**6 for sample in share) / len(share)

            assert abs(found - part) < 0.07
            runs = "".join("ab"[sample >= 10**6] for sample in share)
            assert "a" * 40 not in runs


def test_a_global_batch_of_whole_periods_has_the_exact_mixture_at_every_world_size() -> None:
    order = Mixture({"web": (500, 0.7), "code": (90, 0.2), "maths": (40, 0.1)}, 6000, seed=3)
    for size in (1, 3, 4):
        ranks = [
            ElasticBatchSampler(
                ElasticDistributedSampler(0, order=order, world=World(rank, size), tail="drop"), 120
            ).share()
            for rank in range(size)
        ]
        for step in range(0, 50, 7):
            batch = [order.part_of(sample)[0] for rank in ranks for sample in rank[step]]
            assert {"web": 84, "code": 24, "maths": 12} == Counter(batch)


def test_a_draw_says_which_part_and_which_sample_of_it() -> None:
    order = Mixture({"a": (10, 1), "b": (20, 2)}, seed=0)
    drawn = order(2)
    for place in range(len(drawn)):
        draw = drawn.draw(place)
        assert drawn[place] == draw.sample
        assert (draw.part, draw.index) == order.part_of(draw.sample)
    assert isinstance(drawn.draw(-1), Draw)
    with pytest.raises(IndexError, match=r"sample must be in \[0, 30\), got 30"):
        order.part_of(30)


def test_parts_of_the_same_size_are_shuffled_independently() -> None:
    order = Mixture({"a": (1000, 1), "b": (1000, 1)}, 2000, seed=0)
    draws = [order(0).draw(place) for place in range(2000)]
    first, second = ([d.index for d in draws if d.part == part] for part in "ab")

    assert sum(a == b for a, b in zip(first, second, strict=True)) < 10


def test_proportions_that_change_do_so_at_the_border_of_an_epoch_and_passes_go_on() -> None:
    order = Mixture({"a": (200, 1), "b": (300, 1)}, 100, seed=0)
    before = [list(order(epoch)) for epoch in range(2)]
    order.set_weights({"b": 3, "a": 1}, epoch=2)
    order.set_weights({"a": 0, "b": 1}, epoch=3)

    assert before == [list(order(epoch)) for epoch in range(2)]
    counts = [Counter(order.part_of(s)[0] for s in order(epoch)) for epoch in range(4)]
    assert [{"a": 50, "b": 50}] * 2 + [{"a": 25, "b": 75}, {"b": 100}] == counts
    drawn = [sample for epoch in range(4) for sample in order(epoch)]
    b = [sample for sample in drawn if sample >= 200]
    assert len(set(b)) == len(b) == 275  # no sample of b twice: one pass through all changes
    changed = order.fingerprint(3)
    for weights, message in (
        ({"a": 1}, r"weights must be given for \['a', 'b'\], got \['a'\]"),
        ({"a": -1, "b": 1}, "weight of 'a' must be at least 0, got -1"),
    ):
        with pytest.raises(ValueError, match=message):
            order.set_weights(weights, epoch=1)
    assert changed == order.fingerprint(3)


def test_a_resumed_job_must_have_the_proportions_of_all_epochs_before() -> None:
    def mixture(*changes: int) -> Mixture:
        order = Mixture({"a": (200, 1), "b": (300, 1)}, 100, seed=0)
        for epoch in changes:
            order.set_weights({"a": 1, "b": 3}, epoch=epoch)
        return order

    def lone(order: Mixture, epoch: int = 0) -> ElasticDistributedSampler:
        return ElasticDistributedSampler(0, order=order, world=World(0, 1), start_epoch=epoch)

    sampler = lone(mixture(1), epoch=2)
    sampler.advance(10)
    same, other = lone(mixture(1, 5)), lone(mixture())
    same.load_state_dict(sampler.state_dict())
    assert list(mixture(1)(2))[10:] == list(same)
    with pytest.raises(StateError, match="order of the state is 'mixture/1 seed=0 parts="):
        other.load_state_dict(sampler.state_dict())


def test_weights_are_read_as_the_decimal_numbers_that_they_show() -> None:
    weights: Any
    for weights in ((0.7, 0.2, 0.1), (7, 2, 1), (Fraction(7, 3), Fraction(2, 3), Fraction(1, 3))):
        order = Mixture({name: (5, w) for name, w in zip("abc", weights, strict=True)})
        assert {"a": 7, "b": 2, "c": 1} == order.counts(0)
        assert 10 == order.period


@pytest.mark.parametrize(
    ("parts", "error", "message"),
    [
        ({"a": (5, -1)}, ValueError, "weight of 'a' must be at least 0, got -1"),
        ({"a": (5, 0), "b": (5, 0.0)}, ValueError, "must not all be 0"),
        ({}, ValueError, "must not all be 0"),
        ({"a": (5, float("nan"))}, ValueError, "weight of 'a' must be finite, got nan"),
        ({"a": (5, True)}, TypeError, "weight of 'a' must be a number, got True"),
        ({"a": (5, "1")}, TypeError, "weight of 'a' must be a number, got '1'"),
        ({"a": (0, 1)}, ValueError, "part 'a' has weight 1 and no samples to deal"),
        ({"a": (2.5, 1)}, TypeError, r"parts\['a'\] must be an integer, got 2.5"),
        ({"a": (5, 1), "b": (5, 1 / 3)}, ValueError, r"at most 2\*\*30, got .*: round them"),
    ],
)
def test_bad_parts_are_refused_by_name(parts: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Mixture(parts)


def test_a_mixture_of_trillions_is_dealt_from_any_place() -> None:
    order = Mixture({"a": (10**12, 0.999), "b": (10**9, 0.001)}, 10**13, seed=0)
    drawn = order(10**4)
    found = drawn[10**12 : 10**12 + 10**5 : 100]

    assert [drawn[10**12 + 100 * i] for i in range(0, 1000, 250)] == found[::250]
    assert all(place in drawn.find(found[0]) for place in (10**12,))


CODE = """
import hashlib, sys
if sys.argv[1] == "without": sys.modules["numpy"] = None
from elastic_sampler.orders import Mixture
found = []
for weights in ((1, 1, 1), (0.123, 0.5, 0.377), (1, 30, 69), (0, 1, 2)):
    parts = {name: (size, w) for name, size, w in zip("abc", (7, 10**5, 10**7), weights)}
    order = Mixture(parts, 10**6, seed=4)
    order.set_weights({"a": 1, "b": 2, "c": 2}, epoch=2)
    found += [order(epoch)[500_000:502_000] for epoch in (0, 1, 2)] + [order(1)[3:900_000:901]]
print(hashlib.sha256(repr(found).encode()).hexdigest(), bool(sys.modules.get("numpy")))
"""


def test_mixtures_are_the_same_with_numpy_and_without_and_as_when_checkpoints_were_saved() -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    for numpy in ("with", "without"):
        command = [sys.executable, "-c", CODE, numpy]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

        digest, used = ran.stdout.split()
        assert (numpy == "with") == (used == "True")
        assert digest.startswith("571b1935b184abb0"), digest
