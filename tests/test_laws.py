"""The six laws of the design, each under its own sentence, over random histories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    epochs,
    histories,
    sample_counts,
    seeds,
    start_ranks,
    tails,
    world_sizes,
)
from walks import in_order_of_visits, ranks_of, walk

from elastic_sampler import ElasticDistributedSampler, Permutation
from elastic_sampler.share import TAILS, Tail, positions


def whole_order(num_samples: int, first_size: int, **kwargs: Any) -> list[int]:
    """What a job that is never resized would visit first to last, the tail cut off."""
    lists = [list(sampler) for sampler in ranks_of(num_samples, first_size, **kwargs)]
    return in_order_of_visits(lists, kwargs.get("start_rank", 0))[:num_samples]


@given(sample_counts, seeds, epochs)
def test_order_for_each_n_seed_and_epoch_a_full_order_is_a_bijection(
    n: int, seed: int, epoch: int
) -> None:
    order = Permutation(n, seed, epoch)

    assert list(range(n)) == sorted(order)
    assert list(range(n)) == [order.index(sample) for sample in order]


@given(sample_counts, world_sizes, tails, seeds, st.booleans(), start_ranks, epochs)
def test_batch_in_each_step_the_ranks_together_visit_consecutive_positions(
    n: int, size: int, tail: Tail, seed: int, shuffle: bool, start_rank: int, epoch: int
) -> None:
    options = {"shuffle": shuffle, "seed": seed, "start_rank": start_rank, "start_epoch": epoch}
    shares = [sampler.share() for sampler in ranks_of(n, size, tail=tail, **options)]

    places = [place for share in shares for place in share.places]
    assert list(range(len(places))) == sorted(places)
    assert all(share.places.step == size for share in shares)


@given(sample_counts, histories, world_sizes, tails, seeds, st.booleans(), start_ranks, epochs)
def test_exactly_once_for_every_history_of_resizes_inside_an_epoch(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    tail: Tail,
    seed: int,
    shuffle: bool,
    start_rank: int,
    epoch: int,
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "start_rank": start_rank}
    options |= {"tail": tail, "start_epoch": epoch}
    visited, lists, state = walk(n, history, last, **options)

    size = len(lists)
    first = history[0][0] if history else last
    order = whole_order(n, first, **{**options, "tail": "wrap"}) if n else []
    if tail in ("drop", "uneven") and not shuffle:
        order = list(range(n))
    head, rest = visited[:n], visited[n:]
    assert order[: len(head)] == head
    assert (order * (size + 1))[: len(rest)] == rest  # the tail wraps to the head of the order
    assert {"wrap": True, "fill": True, "drop": not rest, "uneven": not rest}[tail]
    assert len(rest) < size
    assert len(head) == n or (tail == "drop" and n - len(head) < size)
    assert (n, epoch) == (state["position"], state["epoch"])


def test_exactly_once_for_all_small_numbers_of_samples_worlds_and_resizes() -> None:
    for n in range(9):
        for tail in TAILS:
            for first in range(1, 6):
                for steps in range(1, n // first + 1):
                    for last in range(1, 10):
                        visited, _, _ = walk(n, [(first, steps)], last, tail=tail)

                        head, rest = visited[:n], visited[n:]
                        assert list(range(n))[: len(head)] == head
                        assert len(rest) < last and (tail in ("wrap", "fill") or not rest)
                        assert len(head) == n or (tail == "drop" and n - len(head) < last)


@given(sample_counts, world_sizes, tails, st.integers(0, 400))
def test_agreement_all_ranks_take_the_same_number_of_steps_and_len_says_it(
    n: int, size: int, tail: Tail, start: int
) -> None:
    samplers = ranks_of(n, size, tail=tail)
    if 0 < start <= n:
        state = {"version": 1, "epoch": 0, "position": start, "num_samples": n}
        for sampler in samplers:
            sampler.load_state_dict({**state, "seed": 0, "order": "sequential", "origin": 0})

    promised = [len(sampler) for sampler in samplers]
    counts = [len(list(sampler)) for sampler in samplers]
    assert promised == counts
    assert max(counts) - min(counts) <= (tail == "uneven")


@given(st.integers(1, 10**15), st.integers(0, 10**15), world_sizes, tails, st.data())
def test_agreement_holds_at_any_size(
    n: int, start: int, size: int, tail: Tail, data: st.DataObject
) -> None:
    seat = data.draw(st.integers(0, size - 1))
    counts = {len(positions(start, n, size, seat, tail)), len(positions(start, n, size, 0, tail))}

    assert max(counts) - min(counts) <= (tail == "uneven")
    assert sum(len(positions(start, n, size, s, "uneven")) for s in range(size)) == max(
        n - start, 0
    )


@given(sample_counts, histories, world_sizes, tails, seeds, st.booleans(), epochs)
def test_resume_after_any_number_of_steps_at_any_world_size_continues_the_same_epoch(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    tail: Tail,
    seed: int,
    shuffle: bool,
    epoch: int,
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "tail": tail, "start_epoch": epoch}
    _, lists, state = walk(n, history, last, **options)

    # The next epoch knows nothing of what happened in this one.
    size = len(lists)
    resumed = ranks_of(n, size, **{**options, "start_epoch": 0})
    for sampler in resumed:
        sampler.load_state_dict(state)
    fresh = ranks_of(n, size, **{**options, "start_epoch": epoch + bool(n)})
    assert [list(sampler) for sampler in fresh] == [list(sampler) for sampler in resumed]


@given(sample_counts, world_sizes, tails, seeds, st.booleans(), st.data())
def test_purity_reading_changes_nothing(
    n: int, size: int, tail: Tail, seed: int, shuffle: bool, data: st.DataObject
) -> None:
    def make() -> ElasticDistributedSampler:
        sampler = ranks_of(n, size, tail=tail, seed=seed, shuffle=shuffle)[0]
        if start:
            sampler.load_state_dict(
                {**sampler.state_dict(), "position": start, "origin": 0, "epoch": 2}
            )
        return sampler

    start = data.draw(st.integers(0, max(n - 1, 0)))
    read, untouched = make(), make()
    before = read.state_dict()
    looks: list[Callable[[], object]] = [
        lambda: len(read),
        lambda: read.state_dict(),
        lambda: repr(read),
        lambda: iter(read),
        lambda: read.share(),
        lambda: list(read.share()),
        lambda: read.fingerprint(),
        lambda: (read.epoch, read.position, read.num_samples, read.world, read.seed),
        lambda: iter(read).state_dict(),
    ]
    for look in data.draw(st.lists(st.sampled_from(looks), max_size=12)):
        look()

    assert before == read.state_dict() == untouched.state_dict()
    assert list(untouched) == list(read)
