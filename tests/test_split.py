"""A share is split further between processes that load it, and nothing of it changes."""

from __future__ import annotations

import multiprocessing
import pickle
import tracemalloc
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spawned import squares
from strategies import batch_sizes

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    Permutation,
    Share,
    World,
)

# Python 3.12 warns about any fork beside threads, and the pools of this module have some.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork")

Item = TypeVar("Item")

N = 100


def in_turn(parts: list[Sequence[Item]], batch_size: int) -> Iterator[list[Item]]:
    """Batches as a loader with one process for each part delivers them."""
    waiting = deque(iter(part) for part in parts)
    while waiting:
        items = waiting.popleft()
        if batch := list(islice(items, batch_size)):
            yield batch
            waiting.append(items)


@given(
    st.integers(1, 200),
    st.integers(0, 210),
    st.integers(1, 5),
    st.integers(1, 7),
    batch_sizes,
)
def test_parts_delivered_in_turn_are_the_batches_of_the_share_in_its_order(
    n: int, first: int, size: int, parts: int, batch_size: int
) -> None:
    share = Share(Permutation(n, 0, 0), range(first, 2 * n, size))
    split = [share.split(part, parts, batch_size=batch_size) for part in range(parts)]

    items = list(share)
    batches = [items[i : i + batch_size] for i in range(0, len(items), batch_size)]
    assert batches == list(in_turn(split, batch_size))
    for part, mine in enumerate(split):
        expected = sum(batches[part::parts], [])  # noqa: RUF017
        assert expected == list(mine)
        assert len(expected) == len(mine)
        assert expected == [mine[i] for i in range(len(mine))]
        assert expected[::-1] == list(reversed(mine))
        assert expected[1:-1:2] == list(mine[1:-1:2])


@given(st.integers(0, 100), st.integers(1, 5), st.integers(1, 7))
def test_parts_of_batches_delivered_in_turn_are_the_batches(n: int, size: int, parts: int) -> None:
    sampler = ElasticDistributedSampler(n, shuffle=True, world=World(0, size))
    share = ElasticBatchSampler(sampler, 2 * size, micro_batch_size=None).share()
    split = [share.split(part, parts) for part in range(parts)]

    assert list(share) == [batch for (batch,) in in_turn(list(split), 1)]
    assert [len(share[part::parts]) for part in range(parts)] == list(map(len, split))


def test_the_split_of_the_reports() -> None:
    # C66: 16 samples, 2 ranks, 2 workers each. C67: more workers than samples.
    ranks = [
        ElasticDistributedSampler(16, shuffle=False, world=World(r, 2)).share() for r in (0, 1)
    ]
    assert [[0, 4, 8, 12], [2, 6, 10, 14]] == [list(ranks[0].split(i, 2)) for i in range(2)]
    assert [[1, 5, 9, 13], [3, 7, 11, 15]] == [list(ranks[1].split(i, 2)) for i in range(2)]
    few = ElasticDistributedSampler(4, shuffle=False, world=World(1, 2)).share()
    assert [[1], [3], [], []] == [list(few.split(i, 4)) for i in range(4)]
    assert [[1, 3], [], [], []] == [list(few.split(i, 4, batch_size=3)) for i in range(4)]


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ((0, 0), ValueError, "parts must be at least 1, got 0"),
        ((2, 2), ValueError, r"part must be in \[0, 2\), got 2"),
        ((-1, 2), ValueError, r"part must be in \[0, 2\), got -1"),
        ((0, 2, 0), ValueError, "batch_size must be at least 1, got 0"),
        ((0.0, 2), TypeError, "part must be an integer, got 0.0"),
        ((0, "2"), TypeError, "parts must be an integer, got '2'"),
        ((0, 2, True), TypeError, "batch_size must be an integer, got True"),
    ],
)
def test_bad_arguments_are_named(
    arguments: tuple[Any, ...], error: type[Exception], told: str
) -> None:
    part, parts, *size = arguments
    with pytest.raises(error, match=told):
        Share(range(10), range(10)).split(
            part, parts, **dict(zip(["batch_size"], size, strict=False))
        )
    if not size:
        sampler = ElasticDistributedSampler(10, shuffle=False, world=World(0, 1))
        with pytest.raises(error, match=told):
            ElasticBatchSampler(sampler, 2).share().split(part, parts)


def test_an_index_outside_of_a_part_is_an_error_that_says_the_range() -> None:
    part = Share(range(10), range(10)).split(1, 2, batch_size=3)
    assert [3, 4, 5, 9] == list(part)
    with pytest.raises(IndexError, match=r"part index must be in \[0, 4\), got 4"):
        part[4]


def test_a_part_of_a_trillion_is_a_value_of_a_few_bytes() -> None:
    tracemalloc.start()
    try:
        share = ElasticDistributedSampler(10**12, shuffle=True, world=World(3, 8)).share()
        part = share.split(1, 4, batch_size=32)
        last, head = part[-1], list(islice(part, 3))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(share) // 4 == len(part)
    assert list(share[32:35]) == head
    assert share[-2 * 32 - 1] == last  # the last but two of so many batches that 4 divides
    assert part == pickle.loads(pickle.dumps(part))
    assert len(pickle.dumps(part)) < 500
    assert peak < 2 * 2**20


# Pools of processes, without torch.


def pools() -> list[Any]:
    known = multiprocessing.get_all_start_methods()
    return [
        *(
            pytest.param(multiprocessing.get_context(how), id=how)
            for how in ("fork", "spawn")
            if how in known
        )
    ]


def sampler_of(rank: int, size: int) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(N, shuffle=True, world=World(rank, size), tail="uneven")


@pytest.mark.parametrize("context", pools())
def test_the_processes_of_a_pool_take_a_part_each(context: Any) -> None:
    done = []
    for rank in range(2):
        share = sampler_of(rank, 2).share()
        with context.Pool(3) as pool:
            done += pool.map(squares, [share.split(i, 3) for i in range(3)])
        with ProcessPoolExecutor(3, mp_context=context) as executor:
            again = list(executor.map(squares, [share.split(i, 3, batch_size=4) for i in range(3)]))
        assert sorted(squares(share)) == sorted(sum(again, []))  # noqa: RUF017
    assert sorted(squares(range(N))) == sorted(sum(done, []))  # noqa: RUF017


def loaded(executor: Executor, batches: Sequence[list[int]], ahead: int) -> Iterator[list[int]]:
    """What a pool makes of each batch, in order, at most so many of them ahead."""
    waiting: deque[Future[list[int]]] = deque()
    for batch in batches:
        waiting.append(executor.submit(squares, batch))
        if len(waiting) > ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def trained_by(loader: Any) -> list[int]:
    return [square for batch in loader for square in batch]


@pytest.mark.parametrize("executor_of", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_a_tracked_share_of_batches_in_an_executor_resumes_exactly_at_another_world_size(
    executor_of: type[Any],
) -> None:
    trained = []
    with executor_of(2) as executor:
        for rank in range(2):
            batches = ElasticBatchSampler(sampler_of(rank, 2), 8)
            loop = batches.track(loaded(executor, batches.share(), ahead=3))
            trained += trained_by(islice(loop, 5))
            state = batches.state_dict()
            assert 5 * 8 == state["position"]
        for rank in range(3):
            batches = ElasticBatchSampler(sampler_of(rank, 3), 9)
            batches.load_state_dict(state)
            trained += trained_by(batches.track(loaded(executor, batches.share(), ahead=3)))
            assert N == batches.state_dict()["position"]
    assert squares(sorted(range(N))) == sorted(trained)


@pytest.mark.parametrize("context", pools())
def test_a_pool_that_draws_the_whole_epoch_ahead_is_tracked_by_what_it_delivers(
    context: Any,
) -> None:
    batches = ElasticBatchSampler(sampler_of(0, 1), 8)
    trained = []
    with context.Pool(2) as pool:

        def deliveries() -> Iterator[list[int]]:
            yield from pool.imap(squares, batches)

        for step, batch in enumerate(batches.track(deliveries()), start=1):
            trained += batch
            if step == 5:
                break
        batches.load_state_dict(batches.state_dict())
        assert 5 * 8 == batches.state_dict()["position"]
        trained += trained_by(batches.track(deliveries()))
    assert squares(Permutation(N, 0, 0)) == trained
    assert N == batches.state_dict()["position"]


def test_a_share_that_is_read_without_an_iterator_is_tracked_once_and_then_a_new_one_is_due() -> (
    None
):
    sampler = sampler_of(0, 1)
    trained: dict[int, list[int]] = {}

    for epoch in sampler.epochs(2):
        share = sampler.share()
        trained[epoch] = []
        for step, i in enumerate(sampler.track(range(N), batch_size=1), start=1):
            trained[epoch].append(share[i])
            assert step == sampler.state_dict()["position"]
        assert (epoch, N) == (sampler.epoch, sampler.state_dict()["position"])
    assert {epoch: list(Permutation(N, 0, epoch)) for epoch in range(2)} == trained

    with pytest.raises(LoaderMismatchError, match="was not given a new one for this pass"):
        next(iter(sampler.track(range(N), batch_size=1)))
    sampler.share()
    with pytest.raises(LoaderMismatchError, match="delivered 101 or more batches"):
        list(sampler.track(range(2 * N), batch_size=1))


def test_a_pass_after_a_resumed_one_begins_at_the_start_of_the_epoch_again() -> None:
    sampler = sampler_of(0, 1)
    sampler.load_state_dict({**sampler.state_dict(), "position": 60, "origin": 0})
    shares = []
    for _ in range(2):
        shares.append(sampler.share())
        left = range(len(shares[-1]))
        for i in sampler.track(left, batch_size=1):
            if len(shares) == 2 and i == 4:
                break
    assert [40, N, N] == [*map(len, shares), len(sampler.share())]
    assert 5 == sampler.state_dict()["position"]


def test_a_rank_without_anything_left_finishes_the_epoch_too() -> None:
    sampler = ElasticDistributedSampler(3, shuffle=True, tail="uneven", world=World(3, 4))
    assert 0 == len(sampler.share())
    assert [] == list(sampler.track([], batch_size=1))
    assert 3 == sampler.state_dict()["position"]
