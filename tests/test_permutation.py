"""The shuffle: a bijection, uniform where that can be counted, and never another one."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tracemalloc
from collections import Counter
from itertools import pairwise
from math import factorial, isqrt, sqrt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, seeds

from elastic_sampler import Permutation
from elastic_sampler.permutation import EXACT, ONE_TABLE

GOLDEN = Path(__file__).parent / "golden" / "shuffled-1.json"

# Every statistic runs on both kinds of round function, whatever n is.
BOTH_KINDS = pytest.mark.parametrize(
    "kind", [{"exact": 0, "one_table": 2**40}, {"exact": 0, "one_table": 0}], ids=["one", "two"]
)


def golden_of(case: dict[str, Any]) -> dict[str, Any]:
    n, order = case["n"], Permutation(case["n"], case["seed"], case["epoch"])
    return {
        **{name: case[name] for name in ("n", "seed", "epoch")},
        "first": order[:12],
        "from the middle, every n//16": order[n // 2 : n : max(1, n // 16)][:4],
        "last": order[max(0, n - 4) :],
    }


def test_the_order_is_what_it_was_when_checkpoints_were_saved() -> None:
    cases = json.loads(GOLDEN.read_text())

    assert cases == [golden_of(case) for case in cases]


@pytest.mark.parametrize("salt", ["0", "1", "4294967295"])
def test_the_order_does_not_depend_on_the_interpreters_hash_salt(salt: str) -> None:
    code = "from elastic_sampler import Permutation as P; print(list(P(100, -1, 3)[:12]))"
    environment = {**os.environ, "PYTHONHASHSEED": salt}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, timeout=60, check=True
    )

    (first,) = [c["first"] for c in json.loads(GOLDEN.read_text()) if c["n"] == 100 and c["epoch"]]
    assert first == json.loads(ran.stdout)


@BOTH_KINDS
@given(n=st.integers(1, 400), seed=seeds, epoch=epochs)
def test_every_kind_of_table_gives_a_bijection(
    kind: dict[str, int], n: int, seed: int, epoch: int
) -> None:
    assert list(range(n)) == sorted(Permutation(n, seed, epoch, **kind))


@given(st.integers(1, 2**62), seeds, epochs, st.data())
def test_index_inverts_the_shuffle_at_any_size(
    n: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    order = Permutation(n, seed, epoch, one_table=data.draw(st.sampled_from([0, 200])))
    if n > 10**13:  # the largest tables are slow to make: one of them is in the golden file
        order = Permutation(10**13 - n % 10**6, seed, epoch)
    position = data.draw(st.integers(0, len(order) - 1))

    assert position == order.index(order[position])
    assert order[order.index(position)] == position


@given(
    st.sampled_from([3, 100, EXACT, EXACT + 1, 70_001, 2**25, 10**12]),
    st.integers(0, 10**12),
    st.integers(1, 10**6),
    st.integers(0, 40),
    st.booleans(),
)
def test_a_slice_is_the_items_one_by_one(
    n: int, start: int, step: int, count: int, backwards: bool
) -> None:
    order, start = Permutation(n, 5, 6), start % n
    stop = min(n, start + step * count)
    places = slice(start, stop, step)
    if backwards:
        places = slice(stop - 1 if stop > start else start, start or None, -step)

    assert [order[i] for i in range(n)[places]] == list(order[places])
    assert all(type(sample) is int for sample in order[places])


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_small_shuffles_are_uniform_over_all_permutations(n: int) -> None:
    each, count = 60, factorial(n)
    found = Counter(tuple(Permutation(n, seed, 0)) for seed in range(each * count))

    chi_square = sum((seen - each) ** 2 / each for seen in found.values())
    chi_square += (count - len(found)) * each
    assert abs(chi_square - (count - 1)) < 4 * sqrt(2 * (count - 1)) + 4


def fixed_points_and_neighbours(n: int, keys: int, **kind: int) -> tuple[float, float, float]:
    """Per key: fixed points; pairs that stay neighbours; pairs a row apart that stay so."""
    fixed = beside = apart = 0
    row = isqrt(n - 1) + 1
    for seed in range(keys):
        order = list(Permutation(n, seed, 1, **kind))
        fixed += sum(place == sample for place, sample in enumerate(order))
        beside += sum(abs(a - b) == 1 for a, b in pairwise(order))
        apart += sum(abs(a - b) == row for a, b in zip(order, order[row:], strict=False))
    return fixed / keys, beside / keys, apart / keys


@pytest.mark.parametrize(
    ("n", "keys", "kind"),
    [
        (53, 4000, {}),
        (5003, 200, {"exact": 0}),
        (5003, 200, {"exact": 0, "one_table": 0}),
        (70_001, 12, {}),
        (70_001, 12, {"one_table": 0}),
    ],
)
def test_fixed_points_and_neighbours_are_as_many_as_chance_has_it(
    n: int, keys: int, kind: dict[str, int]
) -> None:
    row = isqrt(n - 1) + 1
    expected = 1.0, 2 * (n - 1) / n, 2 * (n - row) ** 2 / (n * (n - 1))

    # Each count is close to a Poisson variable, whose variance is its mean.
    for mean, found in zip(expected, fixed_points_and_neighbours(n, keys, **kind), strict=True):
        assert abs(found - mean) < 4 * sqrt(mean / keys)


@BOTH_KINDS
@pytest.mark.parametrize("n", [5003, 70_001])
def test_differences_between_neighbours_are_no_more_alike_than_chance_has_it(
    n: int, kind: dict[str, int]
) -> None:
    # What sums of few tables would betray first: equal steps, again and again.
    keys = 60 if n < 10_000 else 6
    alike = 0
    for seed in range(keys):
        order = list(Permutation(n, seed, 0, **kind))
        alike += n - 1 - len({(a - b) % n for a, b in pairwise(order)})

    # n-1 differences fall on n-1 values: all but (1 - 1/e) of them are repeats.
    expected, spread = (n - 1) * (1 - 1 / n) ** (n - 1), sqrt(n * 0.1)
    assert abs(alike / keys - expected) < 5 * spread / sqrt(keys)


@BOTH_KINDS
def test_each_region_of_the_data_is_fairly_represented_in_each_batch(kind: dict[str, int]) -> None:
    n, batch, regions = 70_000, 700, 10
    order = list(Permutation(n, 3, 4, **kind))
    chi_square = 0.0
    for start in range(0, n, batch):
        found = Counter(sample * regions // n for sample in order[start : start + batch])
        chi_square += sum((found[r] - batch / regions) ** 2 / (batch / regions) for r in range(10))

    degrees = (n // batch) * (regions - 1)
    assert abs(chi_square - degrees) < 4 * sqrt(2 * degrees)


@pytest.mark.parametrize("n", [2**25, 3 * 2**30, 10**12])
@pytest.mark.parametrize("where", [0.0, 0.37, 0.9])
def test_sampled_windows_are_distinct_and_uniform(n: int, where: float) -> None:
    window, regions = 30_000, 100
    start = int(n * where)
    order = Permutation(n, 0, 0)[start : start + window]

    found = Counter(sample * regions // n for sample in order)
    expected = window / regions
    chi_square = sum((found[r] - expected) ** 2 / expected for r in range(regions))
    assert window == len(set(order))
    assert abs(chi_square - (regions - 1)) < 4 * sqrt(2 * (regions - 1))
    # Each third of the data has its third of the window.
    assert all(abs(sum(s * 3 // n == t for s in order) - window / 3) < 400 for t in range(3))
    low_bits = Counter(sample % 8 for sample in order)
    assert all(abs(low_bits[r] - window / 8) < 5 * sqrt(window / 8) for r in range(8))


def test_seeds_and_epochs_are_hashed_and_never_added_or_cut_short() -> None:
    def order(seed: int, epoch: int, n: int = 1000) -> tuple[int, ...]:
        return tuple(Permutation(n, seed, epoch))

    keys = [(0, 1), (1, 0), (-1, 0), (0, 0), (2**63, 0), (2**64, 0), (2**64 + 1, 0), (10**5000, 0)]
    assert len(keys) == len({order(*key) for key in keys})
    assert order(0, 0) != order(0, 0, 1001)[:1000]


def test_a_trillion_samples_take_neither_memory_nor_a_loop() -> None:
    tracemalloc.start()
    try:
        order = Permutation(10**12, 0, 0)
        taken = [order[0], order[99 * 10**10], order.index(order[10**12 - 1])]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 10**12 - 1 == taken[-1]
    assert peak < 2 * 2**20


def test_the_tables_stay_small_at_the_largest_side_of_one_table() -> None:
    tracemalloc.start()
    try:
        order = Permutation(ONE_TABLE**2, 0, 0)
        assert 0 <= order[0] < ONE_TABLE**2
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 2**19


def test_a_pickle_carries_the_key_and_not_the_tables() -> None:
    order = Permutation(10**8, 0, 0)
    first = order[:5]
    sent = pickle.dumps(order)

    assert len(sent) < 300
    assert first == pickle.loads(sent)[:5]
    assert order == pickle.loads(sent)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"n must be at least 0, got -1"):
        Permutation(-1, 0, 0)
    with pytest.raises(ValueError, match=r"n must be at most 2\*\*62, got"):
        Permutation(2**62 + 1, 0, 0)
    with pytest.raises(TypeError, match=r"seed must be an integer, got '0'"):
        Permutation(5, "0", 0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"epoch must be at least 0, got -1"):
        Permutation(5, 0, -1)
    with pytest.raises(IndexError):
        Permutation(5, 0, 0)[5]
    with pytest.raises(ValueError, match=r"5 is not in Permutation\(n=5, seed=0, epoch=0\)"):
        Permutation(5, 0, 0).index(5)
