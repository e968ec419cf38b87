"""Global batches: the same samples in every step at every world size, whatever happened before."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, histories, sample_counts, seeds, start_ranks, tails

from elastic_sampler import (
    Batches,
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    State,
    UnequalSharesWarning,
    World,
)
from elastic_sampler.share import Tail

pytestmark = pytest.mark.filterwarnings("ignore::elastic_sampler.UnequalSharesWarning")

sizes = st.integers(1, 12)  # world sizes
extra = st.integers(0, 30)  # how much a global batch is larger than the world
micro_sizes = st.one_of(st.none(), st.integers(2, 7))


def batches_of(
    n: int, size: int, global_batch_size: int, micro: int | None = None, **kwargs: Any
) -> list[ElasticBatchSampler]:
    return [
        ElasticBatchSampler(
            ElasticDistributedSampler(n, world=World(rank, size), **kwargs),
            global_batch_size,
            micro_batch_size=micro,
        )
        for rank in range(size)
    ]


def seats_in_order(ranks: list[list[int]], start_rank: int) -> list[list[int]]:
    return [ranks[(seat - start_rank) % len(ranks)] for seat in range(len(ranks))]


def dealt_out(parts: list[list[int]]) -> list[int]:
    """One global batch in the order of positions, from the parts of the seats."""
    longest = max(map(len, parts), default=0)
    return [part[i] for i in range(longest) for part in parts if i < len(part)]


def steps_of(batches: list[ElasticBatchSampler], start_rank: int = 0) -> list[list[int]]:
    """The global batches of what is left, in the order of positions, padding removed."""
    return [batch for batch, _ in both_of(batches, start_rank)]


def both_of(
    batches: list[ElasticBatchSampler], start_rank: int = 0
) -> list[tuple[list[int], list[int]]]:
    """The global batches without their padding, and with it."""
    ranks = [(share, list(share)) for share in (b.share() for b in batches)]
    found = []
    for step in range(max(len(items) for _, items in ranks)):
        parts, whole = [], []
        for share, items in ranks:
            item = items[step] if step < len(items) else []
            real = len(item) - (share.padding(step) if item else 0)
            parts.append(item[:real])
            whole.append(item)
        found.append(
            (
                dealt_out(seats_in_order(parts, start_rank)),
                dealt_out(seats_in_order(whole, start_rank)),
            )
        )
    return found


@given(sample_counts, sizes, extra, tails, seeds, st.booleans(), start_ranks, epochs)
def test_step_k_consumes_the_same_samples_at_every_world_size(
    n: int,
    size: int,
    more: int,
    tail: Tail,
    seed: int,
    shuffle: bool,
    start_rank: int,
    epoch: int,
) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "tail": tail, "start_epoch": epoch}
    one = steps_of(batches_of(n, 1, size + more, **options))
    many = steps_of(batches_of(n, size, size + more, start_rank=start_rank, **options), start_rank)

    assert one == many
    assert all(len(batch) == size + more for batch in one[:-1])
    order = ElasticDistributedSampler(n, world=World(0, 1), **{**options, "tail": "uneven"})
    if shuffle:
        dealt = [index for batch in one for index in batch]
        assert list(order)[: len(dealt)] == dealt


@given(sample_counts, histories, sizes, extra, tails, seeds, st.booleans(), epochs, st.data())
def test_the_sequence_of_global_batches_is_that_of_one_rank_that_was_never_interrupted(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    more: int,
    tail: Tail,
    seed: int,
    shuffle: bool,
    epoch: int,
    data: st.DataObject,
) -> None:
    history = [(size % 12 + 1, steps) for size, steps in history]
    global_batch_size = 12 + more
    options: dict[str, Any] = {"shuffle": shuffle, "seed": seed, "tail": tail, "start_epoch": epoch}
    expected = steps_of(batches_of(n, 1, global_batch_size, **options))

    seen: list[list[int]] = []
    state: dict[str, Any] | None = None
    for size, steps in [*history, (last, None)]:
        batches = batches_of(n, size, global_batch_size, **options)
        for b in batches:
            if state is not None:
                b.load_state_dict(state)
        here = steps_of(batches)
        steps = len(here) if steps is None else min(steps, *map(len, batches))
        if steps < len(here):
            # A prefetching loader draws `ahead` batches more than the loop receives.
            ahead = data.draw(st.integers(0, 5))
            states = [received(b, steps, ahead) for b in batches]
            assert {} == State.compare(states)
            state = states[0]
            seen += here[:steps]
        else:
            seen += here
            break

    assert [batch for batch in expected if batch] == [batch for batch in seen if batch]


def received(batches: ElasticBatchSampler, steps: int, ahead: int) -> dict[str, Any]:
    """The state after the loop received so many batches of a loader that prefetches."""
    for _ in islice(batches.track(Prefetching(batches, ahead)), steps):
        pass
    return batches.state_dict()


class Prefetching:
    """Delivers what a batch sampler yields, drawn `ahead` batches before."""

    def __init__(self, source: ElasticBatchSampler, ahead: int) -> None:
        self.source, self.ahead = source, ahead

    def __len__(self) -> int:
        return len(self.source)

    def __iter__(self) -> Iterator[list[int]]:
        waiting: list[list[int]] = []
        for batch in self.source:
            waiting.append(batch)
            if len(waiting) > self.ahead:
                yield waiting.pop(0)
        yield from waiting


@given(sample_counts, sizes, extra, tails, micro_sizes, st.integers(0, 300))
def test_ranks_take_the_same_number_of_steps_and_micro_batches_and_len_says_it(
    n: int, size: int, more: int, tail: Tail, micro: int | None, start: int
) -> None:
    batches = batches_of(n, size, size + more, micro, tail=tail)
    if 0 < start < n:
        state = State(0, start, n, 0, "sequential", 0).to_dict()
        for b in batches:
            b.load_state_dict(state)

    counts, steps = [], []
    for b in batches:
        promised, share = len(b), b.share()
        items = list(b)
        assert promised == len(items)
        assert all(items)  # never an empty list
        assert items == [share[i] for i in range(promised)] == list(share)
        counts.append(promised)
        steps.append(share.steps)
    if tail != "uneven":
        assert 1 == len(set(counts))
    assert max(steps) - min(steps) <= (tail == "uneven")


@given(sample_counts, sizes, extra, tails, st.integers(2, 7))
def test_micro_batches_are_equally_many_on_every_rank_and_their_sizes_within_one(
    n: int, size: int, more: int, tail: Tail, micro: int
) -> None:
    whole = batches_of(n, size, size + more, tail=tail)
    small = batches_of(n, size, size + more, micro, tail=tail)
    for full, parts in zip(whole, small, strict=True):
        share, flat, step = parts.share(), list(parts), []
        steps, counts = [], []
        for i, item in enumerate(flat):
            step.append(item)
            assert share.micro_batches(i) >= len(step)
            if share.ends_step(i):
                assert share.micro_batches(i) == len(step)
                steps.append([index for one in step for index in one])
                counts.append(len(step))
                assert max(map(len, step)) <= micro
                step = []
        assert [] == step
        assert list(full) == steps
    for i in range(min(len(parts.share()) for parts in small)):
        lengths = [len(parts.share()[i]) for parts in small]
        assert max(lengths) - min(lengths) <= 1
        assert 1 == len({parts.share().ends_step(i) for parts in small})


@given(sample_counts, sizes, extra, tails, micro_sizes)
def test_loss_scales_weigh_each_sample_of_a_global_batch_equally(
    n: int, size: int, more: int, tail: Tail, micro: int | None
) -> None:
    batches = batches_of(n, size, size + more, micro, tail=tail)
    weights: dict[int, list[float]] = {}
    places: dict[int, int] = {}
    for b in batches:
        share, step = b.share(), 0
        for i, item in enumerate(share):
            # mean over the item, times the scale, averaged over ranks: the weight of one sample
            weights.setdefault(step, []).append(share.loss_scale(i) / len(item) / size)
            places[step] = places.get(step, 0) + len(item)
            step += share.ends_step(i)

    for step, found in weights.items():
        assert all(abs(weight * places[step] - 1) < 1e-12 for weight in found)


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("wrap", [[[0, 3, 6], [8, 1]], [[1, 4, 7], [9, 2]], [[2, 5], [0, 3]]]),
        ("fill", [[[0, 3, 6], [8, 1, 4]], [[1, 4, 7], [9, 2, 5]], [[2, 5], [0, 3]]]),
        ("drop", [[[0, 3, 6]], [[1, 4, 7]], [[2, 5]]]),
        ("uneven", [[[0, 3, 6], [8]], [[1, 4, 7], [9]], [[2, 5]]]),
    ],
)
def test_the_four_tails_of_a_batch_that_the_world_size_does_not_divide(
    tail: Any, expected: list[list[list[int]]]
) -> None:
    batches = batches_of(10, 3, 8, tail=tail)
    if tail == "wrap":  # two are left, rounded up to three
        expected = [[[0, 3, 6], [8]], [[1, 4, 7], [9]], [[2, 5], [0]]]

    assert expected == [list(b) for b in batches]
    assert expected == [[b[k] for k in range(len(b))] for b in batches]


def test_wrap_rounds_up_to_equal_counts_even_past_the_global_batch_size() -> None:
    batches = batches_of(15, 3, 8)

    assert [3, 3, 3] == [len(b[1]) for b in batches]
    assert [0, 0, 0] == [b.padding(0) for b in batches]
    assert [0, 1, 1] == [b.padding(1) for b in batches]


def test_a_rank_with_nothing_in_the_last_batch_ends_before_it() -> None:
    batches = batches_of(9, 4, 8, tail="uneven")

    assert [2, 1, 1, 1] == [len(b) for b in batches]
    assert [[0, 4], [8]] == list(batches[0])


@pytest.mark.parametrize(("n", "epoch"), [(10, 3), (60, 2)])
def test_unshuffled_epochs_that_repeat_rotate_by_global_batches(n: int, epoch: int) -> None:
    for size in (1, 2, 3):
        batches = batches_of(n, size, 8, start_epoch=epoch)
        assert [(epoch * 8 + i) % n for i in range(8)] == steps_of(batches)[0]


def test_the_same_global_batch_at_any_world_size_and_at_one_that_does_not_divide_it() -> None:
    for size in (1, 2, 3, 4, 6, 12, 5, 7):
        steps = steps_of(batches_of(60, size, 12))
        assert [list(range(12 * k, 12 * k + 12)) for k in range(5)] == steps
    assert [2, 2, 1, 1] == [len(b[0]) for b in batches_of(60, 4, 6)]


def test_the_saved_position_is_that_of_whole_steps() -> None:
    (batches,) = batches_of(40, 1, 8, micro=3)
    positions = []
    for i, _ in enumerate(batches.track(Prefetching(batches, 2))):
        positions.append(batches.state_dict()["position"])
        assert batches.ends_step(i) == (i % 3 == 2)
        assert 3 == batches.micro_batches(i)

    assert [0, 0, 8, 8, 8, 16, 16, 16, 24, 24, 24, 32, 32, 32, 40] == positions


def test_questions_in_the_last_step_are_about_the_pass_under_way() -> None:
    (batches,) = batches_of(11, 1, 8, tail="fill")
    scales = []
    for k, batch in enumerate(batches.track(Prefetching(batches, 1))):
        scales.append((batches.loss_scale(k), batches.padding(k), len(batch)))
    assert [(1.0, 0, 8), (1.0, 5, 8)] == scales

    resumed = batches_of(20, 3, 8)[0]
    resumed.load_state_dict(State(0, 8, 20, 0, "sequential", 0).to_dict())
    found = [(len(b), resumed.loss_scale(k)) for k, b in enumerate(resumed)]
    assert [(3, 9 / 8), (2, 6 / 6)] == found
    assert 9 / 8 == resumed.loss_scale(0)


def test_advance_counts_steps_by_hand() -> None:
    (batches,) = batches_of(40, 1, 8)
    batches.advance()
    assert 8 == batches.state_dict()["position"]
    iterator = iter(batches)
    next(iterator)
    next(iterator)
    with pytest.raises(ValueError, match="3 batches of this rank as trained, but only 2"):
        batches.advance(3)
    batches.advance(2)
    assert 16 == batches.state_dict()["position"]
    with pytest.raises(ValueError, match="call it on what is iterated over"):
        batches.sampler.advance(1)
    assert 3 == len(list(iterator))
    batches.advance(3)
    assert 40 == batches.state_dict()["position"]


def test_the_iterators_state_is_that_of_what_it_issued_and_loads_before_its_first_next() -> None:
    batches = batches_of(40, 2, 8)
    iterator = iter(batches[0])
    next(iterator)
    state = iterator.state_dict()
    assert 8 == state["position"]

    for size in (2, 3):
        resumed = iter(batches_of(40, size, 8)[0])
        resumed.load_state_dict(state)
        assert list(range(8, 16, size)) == next(resumed)


def test_epochs_and_states_are_the_samplers() -> None:
    batches = batches_of(20, 2, 4)[1]
    counts = [(epoch, batches.epoch, len(list(batches))) for epoch in batches.epochs(3)]
    assert [(0, 0, 5), (1, 1, 5), (2, 2, 5)] == counts
    assert batches.sampler.state_dict() == batches.state_dict()
    batches.set_epoch(7)
    assert 7 == batches.sampler.epoch


@given(sample_counts, sizes, sizes, extra, tails, st.data())
def test_frameworks_find_the_length_of_the_whole_epoch_on_a_tracked_loader_at_any_time(
    n: int, first: int, second: int, more: int, tail: Tail, data: st.DataObject
) -> None:
    g = max(first, second) + more
    batches = batches_of(n, first, g, tail=tail)[0]
    tracked = batches.track(Prefetching(batches, 1), whole_epoch=True)
    whole = len(batches)
    assert whole == len(tracked)
    for _ in islice(tracked, data.draw(st.integers(0, whole))):
        assert whole == len(tracked)

    resumed = batches_of(n, second, g, tail=tail)[0]
    again = resumed.track(Prefetching(resumed, 1), whole_epoch=True)
    again.load_state_dict(tracked.state_dict())
    assert batches.state_dict() == again.state_dict() == again.sampler.state_dict()
    assert whole == len(again)
    again.set_epoch(again.sampler.epoch)
    list(again)
    assert n == again.sampler.state_dict()["position"]


def test_a_mixed_up_track_is_found_out() -> None:
    (batches,) = batches_of(40, 1, 8)
    with pytest.raises(LoaderMismatchError, match="the other way round"):
        list(batches.track([[index] for index in islice(batches.sampler, 1)] and Plain(batches)))
    with pytest.raises(LoaderMismatchError, match="the other way round"):
        list(batches.sampler.track(Prefetching(batches, 0), batch_size=8))
    with pytest.raises(LoaderMismatchError, match="share is 5 batches"):
        list(batches.track(Divides(batches, 0)))
    with pytest.raises(TypeError, match=r"call batches\.track\(loader\)"):
        batches.sampler.track(Prefetching(batches, 0))


class Plain(Prefetching):
    def __init__(self, batches: ElasticBatchSampler) -> None:
        super().__init__(batches, 0)

    def __iter__(self) -> Iterator[list[int]]:
        for index in self.source.sampler:
            yield [index]


class Divides(Prefetching):
    def __iter__(self) -> Iterator[list[int]]:
        return islice(super().__iter__(), 0, None, 2)


def test_a_trillion_samples_are_batched_in_constant_time() -> None:
    (batches,) = batches_of(10**12, 1, 4096, shuffle=True)
    batches.load_state_dict(State(0, 99 * 10**10, 10**12, 0, "shuffled/1", 0).to_dict())

    assert 4096 == len(next(iter(batches)))
    assert -(-(10**10) // 4096) == len(batches)
    assert len(batches[len(batches) - 1]) == 10**10 % 4096


def test_a_share_of_batches_is_a_value() -> None:
    share = batches_of(100, 3, 10, shuffle=True)[1].share()

    assert share == pickle.loads(pickle.dumps(share))
    assert isinstance(share, Batches)
    assert share[2:4] == [share[2], share[3]] == list(share)[2:4]
    assert share[-1] == list(share)[-1]
    for ask in (share.__getitem__, share.padding, share.ends_step, share.loss_scale):
        with pytest.raises(IndexError, match=r"batch index must be in \[0, 10\), got 10"):
            ask(10)


def test_unequal_parts_warn_once_for_each_size_and_world_naming_the_cure() -> None:
    world = [World(0, 3)]
    sampler = ElasticDistributedSampler(40, world=lambda: world[0])
    batches = ElasticBatchSampler(sampler, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        len(batches)
        with pytest.raises(UnequalSharesWarning, match=r"8 .* 3 ranks.*loss_scale\(k\)"):
            iter(batches)
        iter(batches)
        world[0] = World(0, 2)
        iter(batches)
        world[0] = World(0, 5)
        with pytest.raises(UnequalSharesWarning, match="5 ranks"):
            iter(batches)


@pytest.mark.parametrize(
    ("size", "micro", "error", "told"),
    [
        (0, None, ValueError, "global_batch_size must be at least 1, got 0"),
        ("8", None, TypeError, "global_batch_size must be an integer, got '8'"),
        (8, 0, ValueError, "micro_batch_size must be at least 1, got 0"),
        (True, None, TypeError, "global_batch_size must be an integer, got True"),
    ],
)
def test_a_bad_size_is_refused_by_name(size: Any, micro: Any, error: Any, told: str) -> None:
    sampler = ElasticDistributedSampler(10, world=World(0, 1))
    with pytest.raises(error, match=told):
        ElasticBatchSampler(sampler, size, micro_batch_size=micro)
    with pytest.raises(TypeError, match="sampler must be an ElasticDistributedSampler, got"):
        ElasticBatchSampler([1, 2], 4)  # type: ignore[arg-type]


def test_a_global_batch_smaller_than_the_world_is_refused_when_it_would_be_iterated() -> None:
    (batches, *_) = batches_of(10, 4, 2)
    for ask in (iter, len, ElasticBatchSampler.share):
        with pytest.raises(ValueError, match=r"at least the world size.*got 2 for 4 ranks"):
            ask(batches)


def test_micro_batches_of_one_cannot_be_where_parts_are_unequal() -> None:
    with pytest.raises(ValueError, match=r"micro_batch_size must be at least 2.*of 8 on 3 ranks"):
        iter(batches_of(40, 3, 8, micro=1)[0])
    assert [[[0], [2], [4], [6]]] == [list(batches_of(8, 2, 8, micro=1)[0])]
    # An uneven end gives some ranks one and some none: that can be.
    assert [[0], [2], [4]] == list(batches_of(5, 2, 4, micro=1, tail="uneven")[0])
    with pytest.raises(ValueError, match="of 3 on 2 ranks"):
        iter(batches_of(7, 2, 4, micro=1, tail="uneven")[0])
