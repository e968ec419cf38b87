"""Issued is not trained: `track` and `advance` count what the loop received, and check the wiring.

Loaders here are plain Python, with prefetching on demand; torch's are in `test_torch_loader.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import batch_sizes, sample_counts, tails, world_sizes

from elastic_sampler import (
    ElasticDistributedSampler,
    IssuedNotTrainedWarning,
    LoaderMismatchError,
    RepeatedEpochWarning,
    World,
)
from elastic_sampler.share import Tail


class Loader:
    """Batches of a sampler's indices, drawn `ahead` batches before they are delivered."""

    def __init__(
        self, source: Iterable[int], batch_size: int, *, ahead: int = 0, drop_last: bool = False
    ) -> None:
        self.source, self.batch_size = source, batch_size
        self.ahead, self.drop_last = ahead, drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.batch_size)  # type: ignore[arg-type]
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.source)
        waiting: list[list[int]] = []
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                break
            waiting.append(batch)
            if len(waiting) > self.ahead:
                yield waiting.pop(0)
        yield from waiting


def sampler_of(n: int = 40, rank: int = 0, size: int = 2, **kwargs: Any) -> Any:
    return ElasticDistributedSampler(n, world=World(rank, size), **kwargs)


@given(sample_counts, world_sizes, tails, batch_sizes, st.integers(0, 9), st.data())
def test_a_tracked_state_is_what_the_loop_received_whatever_was_prefetched(
    n: int, size: int, tail: Tail, batch_size: int, ahead: int, data: st.DataObject
) -> None:
    sampler = sampler_of(n, 0, size, tail=tail)
    share = list(sampler.share())
    tracked = sampler.track(Loader(sampler, batch_size, ahead=ahead))
    stop = data.draw(st.integers(0, len(tracked)))
    got = []
    for batch in islice(tracked, stop):
        got += batch
        position = sampler.state_dict()["position"]
        dropped = tail == "drop" and len(got) == len(share)
        assert (n if dropped else min(len(got) * size, n)) == position

    assert share[: len(got)] == got
    if stop and sampler.state_dict()["position"] < n:  # the resume point did not move
        assert len(share) == len(sampler)
        rest = []
        for rank in range(size):
            resumed = sampler_of(n, rank, size, tail=tail)
            resumed.load_state_dict(sampler.state_dict())
            rest.append(list(resumed))
        assert share[len(got) :] == rest[0]


def test_a_tracked_loader_is_re_iterable_and_has_the_loaders_length() -> None:
    sampler = sampler_of(41, size=1)
    tracked = sampler.track(Loader(sampler, 4, ahead=2))
    seen = []
    for epoch in sampler.epochs(3):
        assert 11 == len(tracked)
        seen.append([i for batch in tracked for i in batch])
        assert (epoch, 41) == (sampler.state_dict()["epoch"], sampler.state_dict()["position"])

    assert [list(range(41))] * 3 == list(map(sorted, seen))


@pytest.mark.parametrize("ahead", [0, 1, 100])
def test_until_it_is_delivered_the_resume_point_and_the_length_stay(ahead: int) -> None:
    sampler = sampler_of(40)
    for number, _ in enumerate(sampler.track(Loader(sampler, 4, ahead=ahead)), 1):
        assert min(8 * number, 40) == sampler.state_dict()["position"]
        assert 20 == len(sampler)


def test_a_break_reports_what_was_delivered_and_the_next_pass_begins_at_the_resume_point() -> None:
    sampler = sampler_of(40)
    loader = Loader(sampler, 4, ahead=3)
    for _ in range(3):
        got = list(islice(sampler.track(loader), 2))
        assert [[0, 2, 4, 6], [8, 10, 12, 14]] == got
        assert 16 == sampler.state_dict()["position"]


def test_a_loader_that_ends_normally_finishes_the_epoch_also_with_drop_last() -> None:
    sampler = sampler_of(42)
    got = list(sampler.track(Loader(sampler, 4, drop_last=True, ahead=2)))

    assert 5 == len(got)
    assert 42 == sampler.state_dict()["position"]
    few = sampler_of(4)
    assert [] == list(few.track(Loader(few, 4, drop_last=True)))
    assert 4 == few.state_dict()["position"]


def test_an_exception_in_the_loop_leaves_the_batch_in_hand_counted() -> None:
    sampler = sampler_of(40)
    with pytest.raises(ZeroDivisionError):
        for _ in sampler.track(Loader(sampler, 4, ahead=5)):
            raise ZeroDivisionError

    assert 8 == sampler.state_dict()["position"]


def test_a_loader_with_another_sampler_is_found_out_at_its_first_batch() -> None:
    sampler = sampler_of(40)
    next(iter(sampler))  # a look at the sampler is no wiring
    with pytest.raises(LoaderMismatchError, match=r"first batch.*use_distributed_sampler=False"):
        next(iter(sampler.track(Loader(range(20), 4))))
    with pytest.raises(LoaderMismatchError, match="delivered 0 batches"):
        list(sampler.track(Loader([], 4)))


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_loader_that_divides_the_data_a_second_time_is_found_out_at_its_end(
    drop_last: bool,
) -> None:
    class Divides(Loader):
        def __iter__(self) -> Iterator[list[int]]:
            return islice(super().__iter__(), 0, None, 2)

    sampler = sampler_of(40)
    with pytest.raises(
        LoaderMismatchError, match=r"delivered 3 batches.*share is 20 indices, 4 a batch"
    ):
        list(sampler.track(Divides(sampler, 4, drop_last=drop_last)))


def test_a_loader_that_delivers_more_than_the_share_is_found_out() -> None:
    class Again(Loader):
        def __iter__(self) -> Iterator[list[int]]:
            yield from super().__iter__()
            yield [0]

    sampler = sampler_of(40)
    with pytest.raises(LoaderMismatchError, match="delivered 6 or more batches"):
        list(sampler.track(Again(sampler, 4)))


def test_an_iterator_that_was_begun_before_is_found_out() -> None:
    sampler = sampler_of(40)
    begun = iter(Loader(sampler, 4))
    next(begun)
    with pytest.raises(LoaderMismatchError, match="delivered 4 batches"):
        list(sampler.track(begun, batch_size=4))


def test_a_batch_size_that_nobody_knows_is_a_type_error_naming_the_argument() -> None:
    sampler = sampler_of(40)
    with pytest.raises(TypeError, match=r"batch of list has: pass batch_size="):
        sampler.track([[1, 2]])
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {bad}"):
            sampler.track(Loader(sampler, 4), batch_size=bad)
    with pytest.raises(TypeError, match="batch_size must be an integer"):
        sampler.track(Loader(sampler, 4), batch_size="4")

    plain = sampler.track(([index] for index in sampler), batch_size=1)
    assert 20 == len(list(plain))


def test_tracking_belongs_to_its_pass() -> None:
    sampler = sampler_of(40)
    list(islice(sampler.track(Loader(sampler, 4)), 2))
    next(iter(sampler))
    with pytest.warns(IssuedNotTrainedWarning):
        assert 2 == sampler.state_dict()["position"]


def test_the_iterators_own_state_counts_what_it_has_issued_in_a_tracked_pass_too() -> None:
    sampler = sampler_of(40)
    iterators = []

    class Keeps(Loader):
        def __iter__(self) -> Iterator[list[int]]:
            iterators.append(iter(sampler))
            return iter(Loader(iterators[0], self.batch_size, ahead=self.ahead))

    got = list(islice(sampler.track(Keeps(sampler, 4, ahead=2)), 1))
    assert [[0, 2, 4, 6]] == got
    assert 8 == sampler.state_dict()["position"]
    assert 24 == iterators[0].state_dict()["position"]  # three batches of both ranks


def test_a_shuffled_epoch_that_was_tracked_to_its_end_twice_warns() -> None:
    sampler = sampler_of(40, shuffle=True)
    tracked = sampler.track(Loader(sampler, 4, ahead=50))
    list(tracked)
    list(islice(tracked, 3))  # prefetched to the end, but not trained to it
    with pytest.warns(RepeatedEpochWarning):
        list(tracked)


def test_a_state_loaded_inside_a_loop_ends_the_counting_of_that_loop() -> None:
    sampler = sampler_of(40)
    states = []
    for _ in sampler.track(Loader(sampler, 4)):
        states.append(sampler.state_dict())
        if len(states) == 3:
            sampler.load_state_dict(states[0])
    assert states[0] == sampler.state_dict()


@given(sample_counts, world_sizes, tails, st.data())
def test_advance_counts_indices_of_this_rank(
    n: int, size: int, tail: Tail, data: st.DataObject
) -> None:
    sampler = sampler_of(n, 0, size, tail=tail)
    iterator, trained = iter(sampler), 0
    total = len(sampler)
    while trained < total:
        count = data.draw(st.integers(1, total - trained))
        list(islice(iterator, count))
        sampler.advance(count)
        trained += count
        assert min(trained * size, n) == sampler.state_dict()["position"] or trained == total
    list(iterator)

    assert n == sampler.state_dict()["position"]


def test_advance_after_a_loader_has_prefetched_to_the_end_counts_from_its_beginning() -> None:
    sampler = sampler_of(40)
    sampler.load_state_dict({**sampler.state_dict(), "position": 8, "origin": 0})
    for number, _ in enumerate(Loader(sampler, 4, ahead=100), 1):
        sampler.advance(4)
        assert 8 + 8 * number == sampler.state_dict()["position"]


def test_advance_without_an_iteration_counts_from_the_resume_point_with_the_world_of_share() -> (
    None
):
    world = [World(0, 4)]
    sampler = ElasticDistributedSampler(40, world=lambda: world[0])
    sampler.load_state_dict({**sampler.state_dict(), "position": 8, "origin": 0})
    share = sampler.share()
    world[0] = World(0, 2)
    sampler.advance(3)
    assert 8 + 3 * 4 == sampler.state_dict()["position"]

    sampler.advance(len(share) - 3)
    assert 40 == sampler.state_dict()["position"]
    with pytest.raises(ValueError, match="all 8 indices of this rank were trained"):
        sampler.advance()
    assert 20 == len(sampler.share())
    sampler.advance(2)
    assert 4 == sampler.state_dict()["position"]


def test_advance_to_the_end_of_a_share_finishes_the_epoch_whatever_the_tail() -> None:
    sampler = sampler_of(10, 0, 4, tail="drop")
    sampler.advance(len(sampler.share()))

    assert 10 == sampler.state_dict()["position"]


def test_a_pass_counted_by_hand_after_a_resumed_one_begins_at_the_start_of_the_epoch() -> None:
    sampler = ElasticDistributedSampler(100, shuffle=True, world=World(0, 1))
    sampler.load_state_dict({**sampler.state_dict(), "position": 60, "origin": 0})
    sampler.advance(len(sampler.share()))
    assert 100 == len(sampler.share())
    sampler.advance(5)
    assert (5, 100) == (sampler.position, len(sampler))  # a resume offset applies once


def test_advance_past_the_end_ends_there_and_past_what_was_issued_is_an_error() -> None:
    sampler = sampler_of(10)
    iterator = iter(sampler)
    list(islice(iterator, 3))
    with pytest.raises(ValueError, match="4 indices of this rank as trained, but only 3 were"):
        sampler.advance(4)
    sampler.advance(3)
    list(iterator)
    sampler.advance(3)  # a short last batch
    assert 10 == sampler.state_dict()["position"]
    for bad in (0, -1):
        with pytest.raises(ValueError, match=f"count must be at least 1, got {bad}"):
            sampler.advance(bad)


def test_a_tracked_or_advanced_state_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler = sampler_of(40)
        for _ in sampler.track(Loader(sampler, 4, ahead=3)):
            sampler.state_dict()
        by_hand = sampler_of(40)
        for _ in by_hand:
            by_hand.advance()
            by_hand.state_dict()


def test_a_progress_bar_counts_what_is_left_also_after_a_resume(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("tqdm", reason="needs tqdm")
    sampler = sampler_of(40)
    sampler.load_state_dict({**sampler.state_dict(), "position": 8, "origin": 0})
    assert 4 == len(list(sampler.track(Loader(sampler, 4), progress=True)))
    assert "4/4" in capsys.readouterr().err
    assert 4 == len(list(sampler.track(Loader(sampler, 5, drop_last=True), progress=True)))
    assert "4/4" in capsys.readouterr().err


def test_a_progress_bar_without_tqdm_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    sampler = sampler_of(40)

    with pytest.raises(ImportError, match=r"pip install 'elastic-sampler\[progress\]'"):
        sampler.track(Loader(sampler, 4), progress=True)
