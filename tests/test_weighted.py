"""Draws by weight: as often as they should, the same everywhere, from any draw on, at any size."""

from __future__ import annotations

import hashlib
import math
import pickle
import subprocess
import sys
from array import array
from collections import Counter
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, seeds

from elastic_sampler import ElasticDistributedSampler, StateError, World
from elastic_sampler.orders import Weighted
from elastic_sampler.orders.weighted import Draws
from elastic_sampler.words import Words


def lone(order: Weighted, **kwargs: Any) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(0, order=order, world=World(0, 1), **kwargs)


def within(seen: int, draws: int, probability: float) -> bool:
    """Whether a count is within 4.5 standard deviations of the binomial distribution."""
    spread = math.sqrt(draws * probability * (1 - probability))
    return abs(seen - draws * probability) <= 4.5 * spread + 1e-9


@pytest.mark.parametrize("scale", [1, 0.1, 1e-300, 1e300, 5e-324])
def test_samples_are_drawn_as_often_as_their_weights_say(scale: float) -> None:
    weights = [w * scale for w in (1, 0, 2, 5, 0, 100, 7)]
    draws = 200_000
    for epoch in range(3):
        found = Counter(Weighted(weights, draws, seed=5)(epoch))

        total = math.fsum(weights)
        assert all(within(found[i], draws, w / total) for i, w in enumerate(weights)), found


def test_successive_draws_and_the_same_draws_of_successive_epochs_are_independent() -> None:
    draws = 100_000
    first, second = (list(Weighted([1] * 8, draws, seed=0)(epoch)) for epoch in (0, 1))
    for pairs in (
        pairwise(first),
        zip(first, first[8:], strict=False),
        zip(first, second, strict=True),
    ):
        found = Counter(pairs)
        chi_square = sum((seen - draws / 64) ** 2 / (draws / 64) for seen in found.values())
        assert 64 == len(found)
        assert abs(chi_square - 63) < 4.5 * math.sqrt(2 * 63)


def test_each_bit_of_a_word_is_one_as_often_as_not() -> None:
    numbers = range(20_000)
    for text in ("a", "b", "c"):
        words = Words.of(text).take(numbers)

        ones = [sum(word >> bit & 1 for word in words) for bit in range(64)]
        assert all(within(seen, len(numbers), 0.5) for seen in ones)


def test_without_replacement_samples_arrive_as_often_in_each_order_as_they_should() -> None:
    weights, seeds = (1.0, 2.0, 5.0), 20_000
    found = Counter(tuple(Weighted(weights, replacement=False, seed=s)(0)) for s in range(seeds))

    for a, b, c in permutations(range(3)):
        probability = weights[a] / 8 * weights[b] / (8 - weights[a])
        assert within(found[a, b, c], seeds, probability), found


def test_draws_are_what_they_were_when_checkpoints_were_saved() -> None:
    weights = [0.5, 0, 3, 1.25, 7, 1e-9]
    order = Weighted(weights, 10**12, seed=2**64 + 1)
    race = Weighted(range(1, 20), 8, replacement=False, seed=-1)

    assert GOLDEN_DRAWS == [order(3)[:12], order(3)[10**11 : 10**11 + 12], list(race(7))]
    assert "weighted/1 seed=18446744073709551617 weights=2ffd00d79803" == order.fingerprint(3)


GOLDEN_DRAWS = [
    [4, 4, 4, 4, 3, 2, 4, 4, 4, 2, 4, 2],
    [4, 2, 2, 4, 3, 4, 2, 4, 4, 4, 4, 4],
    [9, 14, 13, 6, 16, 11, 12, 17],
]


DRAW = """
import hashlib, random, sys
if sys.argv[1] == "without": sys.modules["numpy"] = None
from elastic_sampler.orders import Weighted
source = random.Random(0)
weights = [source.choice([0, source.random(), source.expovariate(1e-9)]) for _ in range(5000)]
found = [list(Weighted(weights, 3000, replacement=r, seed=9)(2)[::3]) for r in (True, False)]
found += list(Weighted(weights, 10**18, seed=9)(2)[10**17 : 10**17 + 10**7 : 4999])
print(hashlib.sha256(repr(found).encode()).hexdigest(), bool(sys.modules.get("numpy")))
"""


def test_draws_are_the_same_with_numpy_and_without() -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    found = {}
    for numpy in ("with", "without"):
        ran = subprocess.run(
            [sys.executable, "-c", DRAW, numpy],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        digest, used = ran.stdout.split()
        assert (numpy == "with") == (used == "True")
        found[numpy] = digest
    assert found["with"] == found["without"]


@given(
    st.lists(st.floats(0, 1e300), min_size=1, max_size=30).filter(any),
    seeds,
    epochs,
    st.integers(0, 10**12),
)
def test_a_draw_is_a_function_of_its_number_and_never_of_weight_0(
    weights: list[float], seed: int, epoch: int, start: int
) -> None:
    order = Weighted(weights, 10**12 + 700, seed=seed)(epoch)
    stretch = order[start : start + 700]

    assert list(stretch[::50]) == [order[start + i] for i in range(0, 700, 50)]
    assert all(weights[sample] > 0 for sample in stretch)


def test_an_epoch_of_billions_of_draws_is_resumed_at_any_of_them() -> None:
    order = Weighted([1, 2, 3], 10**10, seed=0)
    expected = order(4)[10**9 : 10**9 + 6]
    ranks = [
        ElasticDistributedSampler(0, order=order, world=World(rank, 3), start_epoch=4)
        for rank in range(3)
    ]
    state = {**ranks[0].state_dict(), "position": 10**9, "origin": 0}
    for sampler in ranks:
        sampler.load_state_dict(state)
    iterators = [iter(sampler) for sampler in ranks]

    assert list(expected) == [next(iterator) for _ in range(2) for iterator in iterators]


LARGE = """
from array import array
from pathlib import Path
import numpy
from elastic_sampler.orders import Weighted

def peak():  # in KiB; not ru_maxrss, which begins with the peak of the parent process
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

weights = array("d", range(1, 1001)) * 10_000
before = peak()
order = Weighted(weights, seed=0, replacement={})
assert len(order(0)) == 10_000_000
order(0)[:100_000]
print((peak() - before) / 1024)
"""


@pytest.mark.parametrize("replacement", [True, False])
def test_ten_million_weights_take_less_than_250_megabytes(replacement: bool) -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    if sys.platform != "linux":
        pytest.skip("the peak is read from /proc")
    ran = subprocess.run(
        [sys.executable, "-c", LARGE.format(replacement)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert 100 < float(ran.stdout) < 250


def test_more_than_2_to_the_24_weights_are_no_limit() -> None:
    weights = array("d", bytes(8 * 2**24)) + array("d", [1])

    assert {2**24} == set(Weighted(weights, 1000, seed=0)(0))
    assert {9} == set(Weighted([0] * 9 + [4], 1000, seed=0)(0))


def test_zero_weights_are_never_drawn_and_cannot_fill_up_a_race() -> None:
    weights = [0, 10, 3, 0]

    assert {1, 2} == set(Weighted(weights, 1000, seed=0)(0))
    assert {1, 2} == set(Weighted(weights, 2, replacement=False, seed=0)(0))
    assert [1, 2] == sorted(Weighted(weights, replacement=False, seed=0)(0))
    with pytest.raises(ValueError, match="without replacement, got 4 of 2"):
        Weighted(weights, 4, replacement=False)
    with pytest.raises(ValueError, match="must not all be 0, got 3 of them"):
        Weighted([0, 0, 0])


@pytest.mark.parametrize("length", [2, 600])
def test_a_weight_that_underflows_beside_a_large_one_still_races_before_weight_0(
    length: int,
) -> None:
    weights = [0.0] * (length - 2) + [5e-324, 1e300]

    assert [length - 1, length - 2] == list(Weighted(weights, replacement=False, seed=1)(0))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([math.nan, 1], ValueError, r"finite and at least 0, got nan at weights\[0\]"),
        ([1, math.inf], ValueError, r"got inf at weights\[1\]"),
        ([math.inf, -math.inf], ValueError, r"got inf at weights\[0\]"),
        ([3, -1], ValueError, r"got -1.0 at weights\[1\]"),
        ([1e308, 1e308], ValueError, "the sum of weights must be finite"),
        ([True, 1], TypeError, r"must be numbers, got True at weights\[0\]"),
        ([1, "2"], TypeError, r"must be numbers, got '2' at weights\[1\]"),
        ([], ValueError, "must not all be 0, got 0 of them"),
    ],
)
def test_bad_weights_are_refused_by_position(
    weights: Any, error: type[Exception], message: str
) -> None:
    good = Weighted([1, 2])
    before = good.fingerprint(1)
    for use in (Weighted, lambda w: good.set_weights(w, epoch=1)):
        with pytest.raises(error, match=message):
            use(weights)
    assert before == good.fingerprint(1)


def test_weights_may_be_any_numbers() -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    expected = list(Weighted([1.0, 2.0, 3.0], 50)(0))
    for weights in (
        (1, 2, 3),
        array("f", [1, 2, 3]),
        array("d", [1, 2, 3]),
        numpy.array([1, 2, 3]),
        numpy.array([1.0, 9, 2, 9, 3])[::2],
        numpy.array([1, 2, 3], dtype=numpy.float32),
        iter([1, 2, 3]),
    ):
        assert expected == list(Weighted(weights, 50)(0))
    with pytest.raises(TypeError, match=r"must be numbers, got .*True.* at weights\[0\]"):
        Weighted(numpy.array([True, False]))


def test_the_users_array_can_change_afterwards() -> None:
    weights = array("d", [1, 2, 3])
    order = Weighted(weights, 50)
    expected = list(order(0))
    weights[0] = 1e9

    assert expected == list(order(0))


def test_other_weights_take_effect_at_the_border_of_an_epoch() -> None:
    order = Weighted([1, 0], 6, seed=0)
    sampler = lone(order)
    iterator = iter(sampler)
    found = [next(iterator) for _ in range(2)]
    order.set_weights([0, 1], epoch=1)

    assert [0] * 6 == found + list(iterator)
    sampler.set_epoch(1)
    assert [1] * 6 == list(sampler)
    assert [0] * 6 == list(order(0))
    with pytest.raises(ValueError, match="epoch must be at least 0, got -1"):
        order.set_weights([1, 1], epoch=-1)


def test_weights_set_for_an_epoch_that_was_only_looked_at_are_used() -> None:
    order = Weighted([1, 0], 6, seed=0)
    sampler = lone(order)
    assert 6 == len(sampler)
    order.set_weights([0, 1, 0], epoch=0)

    assert [1] * 6 == list(sampler)
    assert order.fingerprint(0) == sampler.state_dict()["order"]


def test_weights_set_for_an_epoch_under_way_are_an_error_and_not_a_mixture() -> None:
    order = Weighted([1, 0], 6, seed=0)
    sampler = lone(order)
    iterator = iter(sampler)
    sampler.advance(2)
    expected = sampler.state_dict()
    order.set_weights([0, 1], epoch=0)

    assert expected == sampler.state_dict()  # the state tells what the pass under way drew from
    assert [0] * 6 == list(iterator)
    with pytest.raises(StateError, match="order of the state is 'weighted/1 seed=0 weights="):
        lone(order).load_state_dict(expected)
    order.set_weights([1, 0], epoch=0)
    resumed = lone(order)
    resumed.load_state_dict(expected)
    order.set_weights([0, 1], epoch=0)
    with pytest.raises(StateError, match="an order must not change inside an epoch"):
        len(resumed)


def test_a_state_tells_the_weights_of_its_epoch_and_a_fresh_process_must_have_them() -> None:
    order = Weighted([1, 1], 6, seed=0)
    order.set_weights([1, 3], epoch=2)
    sampler = lone(order, start_epoch=2)
    sampler.advance(2)
    state = sampler.state_dict()

    with pytest.raises(StateError, match="order of the state is"):
        lone(Weighted([1, 1], 6, seed=0)).load_state_dict(state)
    fresh = lone(Weighted([1, 3], 6, seed=0))
    fresh.load_state_dict(state)
    assert list(order(2))[2:] == list(fresh)
    with pytest.raises(ValueError, match="weights of epoch 1 are no longer known"):
        order.set_weights([2, 2], epoch=5)
        order(1)


def test_equal_draws_are_equal_values_and_the_table_is_not_pickled() -> None:
    order = Weighted(array("d", [1]) * 5000, seed=0)
    draws = order(1)
    assert isinstance(draws, Draws)
    list(draws)

    again = pickle.loads(pickle.dumps(draws))
    assert again == draws == order(1)
    assert draws != order(2)
    assert draws != Weighted(array("d", [2]) * 5000, seed=0)(1)
    assert len(pickle.dumps(draws)) < 5000 * 9
    assert list(draws) == list(again)
    assert hashlib.sha256(repr(draws).encode()).digest()  # and its repr is short
    assert len(repr(draws)) < 300
