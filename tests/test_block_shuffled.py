"""Block by block: a bijection at any sizes of blocks, local, mixed, and always the same."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, seeds

from elastic_sampler import ElasticDistributedSampler, EpochOrder, World
from elastic_sampler.orders import BlockShuffled, Sequential, Shuffled


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 12), seeds, epochs)
def test_an_epoch_is_a_bijection_for_every_size_of_block_and_window(
    n: int, size: int, window: int, seed: int, epoch: int
) -> None:
    order = BlockShuffled(n, size, seed=seed, window=window)(epoch)

    assert list(range(n)) == sorted(order)
    assert list(range(n)) == [order.index(sample) for sample in order]
    assert [order[p] for p in range(n)] == list(order)


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 12), seeds, epochs)
def test_an_epoch_is_a_bijection_for_blocks_of_any_sizes(
    sizes: list[int], window: int, seed: int, epoch: int
) -> None:
    n = sum(sizes)
    order = BlockShuffled(n, sizes, seed=seed, window=window)(epoch)

    assert list(range(n)) == sorted(order)
    assert list(range(n)) == [order.index(sample) for sample in order]
    assert [order[p] for p in range(n)] == list(order)


@given(st.integers(1, 300), st.integers(1, 40), st.integers(1, 12), seeds)
def test_blocks_of_one_size_are_the_same_order_by_arithmetic_and_from_a_list(
    n: int, size: int, window: int, seed: int
) -> None:
    sizes = [min(size, n - begin) for begin in range(0, n, size)]

    even, sized = (BlockShuffled(n, s, seed=seed, window=window)(3) for s in (size, sizes))
    assert list(even) == list(sized)


def test_windows_are_whole_blocks_and_change_from_epoch_to_epoch() -> None:
    order = BlockShuffled(1000, 10, seed=0, window=4)
    windows = []
    for epoch in range(2):
        samples = list(order(epoch))
        for start in range(0, 1000, 40):
            blocks = {sample // 10 for sample in samples[start : start + 40]}
            assert 4 == len(blocks)
            windows.append(frozenset(blocks))
    assert 50 == len(set(windows))


def blocks_per_thousand(order: Any, size: int, world_size: int) -> float:
    """Different blocks in 1 000 indices in a row of rank 0, on average."""
    share = ElasticDistributedSampler(0, order=order, world=World(0, world_size)).share()
    stretches = [share[start : start + 1000] for start in range(0, len(share), 1000)][:50]
    return sum(len({sample // size for sample in s}) for s in stretches) / len(stretches)


def neighbours_of_one_block(order: EpochOrder, size: int) -> float:
    """Of 1 000 pairs of neighbours, how many are of one block."""
    samples = cast("Sequence[int]", order(0))[:100_001]
    same = sum(a // size == b // size for a, b in pairwise(samples))
    return same / 100


@pytest.mark.parametrize(
    ("order", "alone", "of_eight", "neighbours"),
    [
        (Sequential(10**6), 1, 8, 999),
        (BlockShuffled(10**6, 1000, window=1), 1, 8, 999),
        (BlockShuffled(10**6, 1000, window=8), 8, 8, 125),
        (BlockShuffled(10**6, 1000, window=64), 64, 64, 16),
        (Shuffled(10**6), 632, 632, 1),
    ],
    ids=["as it lies", "1", "8", "64", "shuffled"],
)
def test_locality_and_mixing_are_what_the_documentation_says(
    order: Any, alone: int, of_eight: int, neighbours: int
) -> None:
    assert alone == pytest.approx(blocks_per_thousand(order, 1000, 1), rel=0.05, abs=0.5)
    assert of_eight == pytest.approx(blocks_per_thousand(order, 1000, 8), rel=0.05, abs=0.5)
    assert neighbours == pytest.approx(neighbours_of_one_block(order, 1000), rel=0.05, abs=1)


def test_inside_a_window_every_sample_is_as_likely_at_every_place() -> None:
    counts = [0] * 12
    for epoch in range(4000):
        counts[list(BlockShuffled(12, 3, seed=5, window=4)(epoch)).index(7)] += 1

    assert all(abs(count - 4000 / 12) < 4.5 * (4000 / 12) ** 0.5 for count in counts)


def test_a_trillion_samples_in_blocks_take_next_to_no_memory() -> None:
    tracemalloc.start()
    try:
        order = BlockShuffled(10**12 + 7, 10**4, seed=0, window=16)(3)
        sample = order[5 * 10**11]
        assert 5 * 10**11 == order.index(sample)
        assert 1000 == len(set(order[10**11 : 10**11 + 64 * 1000 : 64]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_the_order_is_what_it_was_when_checkpoints_were_saved() -> None:
    even = BlockShuffled(10**9, 1000, seed=-1, window=8)(5)
    sized = BlockShuffled(100, [7, 50, 3, 40], seed=2**70, window=2)(0)

    assert GOLDEN == [even[:6], even[10**8 : 10**8 + 6], sized[:6]]


GOLDEN = [
    [485973368, 689113943, 361427608, 24932414, 689113882, 359660530],
    [254294773, 254294302, 571645133, 655352251, 823811759, 823811299],
    [36, 17, 50, 49, 33, 48],
]

CODE = """
import hashlib, sys
if sys.argv[1] == "without": sys.modules["numpy"] = None
from elastic_sampler.orders import BlockShuffled
orders = [BlockShuffled(10**7 + 3, 700, window=w)(2) for w in (1, 9)]
found = [order[s : s + 10**5 : 17] for order in orders for s in (0, 10**7 - 10**5)]
found.append(BlockShuffled(9000, [1000, 0, 5000, 3000], window=2)(2)[:])
print(hashlib.sha256(repr(found).encode()).hexdigest(), bool(sys.modules.get("numpy")))
"""


def test_the_order_is_the_same_with_numpy_and_without() -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    found = set()
    for numpy in ("with", "without"):
        command = [sys.executable, "-c", CODE, numpy]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        digest, used = ran.stdout.split()
        assert (numpy == "with") == (used == "True")
        found.add(digest)
    assert 1 == len(found)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((10, 0), ValueError, "block_size must be at least 1, got 0"),
        ((10, 2.5), TypeError, "block_size must be an integer, got 2.5"),
        ((10, [4, 5]), ValueError, "block sizes must add up to num_samples, got 9 and 10"),
        ((10, [4, -5, 11]), ValueError, r"block_size must be at least 0, got -5 at"),
        ((-1, 4), ValueError, "num_samples must be at least 0, got -1"),
    ],
)
def test_bad_blocks_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        BlockShuffled(*arguments)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        BlockShuffled(10, 2, window=0)
