"""torchdata's StatefulDataLoader: it resumes exactly, at the same and at another world size.

It finds `state_dict` and `load_state_dict` by name, on the sampler and on the sampler's iterator,
and asks both whenever it has drawn a batch: with workers, some batches before it delivers it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import islice, product
from typing import Any

import pytest
from integration.conftest import need

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    State,
    World,
)
from elastic_sampler.share import Tail

pytestmark = [
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torchdata, of torch
    # torch, about machines with less than 2 cores; Python 3.12, about any fork beside threads.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]

# torchdata asks the sampler as well as its iterator; it is the iterator's state that counts.
untracked = pytest.mark.filterwarnings("ignore::elastic_sampler.IssuedNotTrainedWarning")

N, GLOBAL_BATCH = 103, 12

both_samplers = pytest.mark.parametrize("kind", ["sampler", "batch_sampler"])
with_and_without_workers = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(autouse=True)
def engine() -> None:
    need(find_spec("torch") and find_spec("torchdata"), "needs torchdata: extra `frameworks`")


@dataclass(frozen=True)
class Rank:
    """One rank's loader, whose samples are their own indices."""

    sampler: ElasticDistributedSampler
    batches: ElasticBatchSampler | ElasticDistributedSampler
    loader: Any

    def tracked(self) -> Iterable[Any]:
        return self.batches.track(self.loader)

    def load(self, checkpoint: Mapping[str, Any]) -> None:
        """The recipe: the sampler's state always, the loader's inside of an epoch."""
        self.sampler.load_state_dict(checkpoint["sampler"])
        if State.from_dict(checkpoint["sampler"]).begun:
            self.loader.load_state_dict(checkpoint["loader"])

    def checkpoint(self) -> dict[str, Any]:
        return {"sampler": self.sampler.state_dict(), "loader": self.loader.state_dict()}


def rank_of(
    kind: str, workers: int, rank: int = 0, size: int = 2, tail: Tail = "wrap", **options: Any
) -> Rank:
    sampler = ElasticDistributedSampler(N, shuffle=True, seed=0, tail=tail, world=World(rank, size))
    batches = ElasticBatchSampler(sampler, GLOBAL_BATCH)
    dealt: dict[str, dict[str, Any]] = {
        "sampler": {"sampler": sampler, "batch_size": GLOBAL_BATCH // size},
        "batch_sampler": {"batch_sampler": batches},
    }
    if workers:
        options = {"num_workers": workers, "multiprocessing_context": "fork", **options}
    make: Any = import_module("torchdata.stateful_dataloader").StatefulDataLoader
    loader = make(range(N), **dealt[kind], **options)
    return Rank(sampler, sampler if kind == "sampler" else batches, loader)


def ids(batches: Iterable[Any]) -> list[int]:
    return [index for batch in batches for index in batch.tolist()]


@both_samplers
@with_and_without_workers
@pytest.mark.parametrize("stop", [1, 8])  # of 9 batches
def test_a_tracked_loader_resumes_exactly_inside_an_epoch(
    kind: str, workers: int, stop: int
) -> None:
    first = rank_of(kind, workers)
    expected = ids(rank_of(kind, workers).tracked())
    seen = ids(islice(first.tracked(), stop))
    checkpoint = first.checkpoint()
    assert stop * GLOBAL_BATCH == checkpoint["sampler"]["position"]
    assert checkpoint["sampler"] == sampler_state(checkpoint["loader"])

    second = rank_of(kind, workers)
    second.load(checkpoint)
    assert expected == seen + ids(second.tracked())
    assert N == second.sampler.state_dict()["position"]


@untracked
@both_samplers
@with_and_without_workers
@pytest.mark.parametrize("stop", [0, 3, 9])
def test_the_loaders_own_state_is_enough_at_the_same_world_size(
    kind: str, workers: int, stop: int
) -> None:
    expected = ids(rank_of(kind, workers).loader)
    first = rank_of(kind, workers)
    seen = ids(islice(first.loader, stop))
    second = rank_of(kind, workers)
    second.loader.load_state_dict(first.loader.state_dict())

    assert expected == seen + ids(second.loader)


@pytest.mark.parametrize("tail", ["wrap", "drop", "uneven"])
@both_samplers
@with_and_without_workers
def test_a_state_from_between_two_epochs_goes_on_with_the_next(
    kind: str, workers: int, tail: Tail
) -> None:
    whole = rank_of(kind, workers, tail=tail)
    expected = {epoch: ids(whole.tracked()) for epoch in whole.sampler.epochs(3)}

    first = rank_of(kind, workers, tail=tail)
    seen = {epoch: ids(first.tracked()) for epoch in first.sampler.epochs(1)}
    checkpoint = first.checkpoint()
    second = rank_of(kind, workers, tail=tail)
    second.load(checkpoint)
    assert expected == seen | {epoch: ids(second.tracked()) for epoch in second.sampler.epochs(3)}

    # With both states loaded whole, and with the loader's alone and an epoch counter of one's own.
    third, fourth = (rank_of(kind, workers, tail=tail) for _ in range(2))
    third.sampler.load_state_dict(checkpoint["sampler"])
    third.loader.load_state_dict(checkpoint["loader"])
    fourth.loader.load_state_dict(checkpoint["loader"])
    rest = {epoch: ids(third.tracked()) for epoch in third.sampler.epochs(3)}
    assert expected == seen | rest
    for epoch in (1, 2):
        fourth.sampler.set_epoch(epoch)
        assert expected[epoch] == ids(fourth.tracked())


@both_samplers
@with_and_without_workers
def test_a_state_saved_in_the_last_step_of_an_epoch_goes_on_with_the_next(
    kind: str, workers: int
) -> None:
    whole = rank_of(kind, workers)
    expected = {epoch: ids(whole.tracked()) for epoch in whole.sampler.epochs(2)}

    first = rank_of(kind, workers)
    for _ in first.tracked():
        checkpoint = first.checkpoint()
    second = rank_of(kind, workers)
    second.load(checkpoint)
    rest = {epoch: ids(second.tracked()) for epoch in second.sampler.epochs(2)}
    assert {1: expected[1]} == rest


@both_samplers
def test_persistent_workers_resume_inside_the_second_epoch(kind: str) -> None:
    options: dict[str, Any] = {"workers": 2, "persistent_workers": True}
    whole = rank_of(kind, **options)
    expected = {epoch: ids(whole.tracked()) for epoch in whole.sampler.epochs(3)}

    first = rank_of(kind, **options)
    seen: dict[int, list[int]] = {}
    for epoch in first.sampler.epochs(2):
        seen[epoch] = ids(islice(first.tracked(), 4 if epoch else None))
    second = rank_of(kind, **options)
    second.load(first.checkpoint())
    for epoch in second.sampler.epochs(3):
        seen[epoch] = seen.get(epoch, []) + ids(second.tracked())
    assert expected == seen


@untracked
def test_a_state_may_be_asked_for_before_the_first_batch() -> None:
    first = rank_of("sampler", 2)
    assert 0 == first.checkpoint()["sampler"]["position"]  # makes an iterator, which draws ahead
    assert ids(rank_of("sampler", 2).tracked()) == ids(first.tracked())


@both_samplers
@with_and_without_workers
@pytest.mark.parametrize("size", [1, 3])
def test_at_another_world_size_the_samplers_state_alone_is_carried_over(
    kind: str, workers: int, size: int
) -> None:
    seen, states = [], []
    for rank in range(2):
        first = rank_of(kind, workers, rank)
        seen += ids(islice(first.tracked(), 3))
        checkpoint = first.checkpoint()
        states += [checkpoint["sampler"], sampler_state(checkpoint["loader"])]
    assert {} == State.compare(states)  # any of them stands for all

    for rank in range(size):
        resumed = rank_of(kind, workers, rank, size)
        resumed.sampler.load_state_dict(states[0])
        seen += ids(resumed.tracked())
        assert N == resumed.sampler.state_dict()["position"]
    counts = Counter(seen)
    assert set(range(N)) == set(counts)
    assert -(N - 3 * GLOBAL_BATCH) % size == counts.total() - N  # the wrap-around


def sampler_state(loader_state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The sampler's state inside of a StatefulDataLoader's."""
    assert not loader_state.get("_steps_since_snapshot"), "it is older: snapshot_every_n_steps > 1"
    found = loader_state
    for name in ("_snapshot", "_main_snapshot", "_sampler_iter_state", "sampler_iter_state"):
        found = found.get(name, found)
    return found


@untracked
def test_rare_snapshots_resume_untracked_and_at_the_same_world_size_only() -> None:
    options: dict[str, Any] = {"workers": 2, "snapshot_every_n_steps": 3}
    expected = ids(rank_of("sampler", **options).loader)
    first = rank_of("sampler", **options)
    seen = ids(islice(first.loader, 5))
    state = first.loader.state_dict()
    with pytest.raises(AssertionError, match="snapshot_every_n_steps > 1"):
        sampler_state(state)

    second, third = (rank_of("sampler", **options) for _ in range(2))
    for resumed in (second, third):
        resumed.loader.load_state_dict(state)
    assert expected == seen + ids(second.loader)
    # The loader draws and throws away what was delivered since: a loop that is tracked finds out.
    with pytest.raises(LoaderMismatchError, match="delivered 4 batches"):
        list(third.tracked())


ROLES = {
    "counts of this rank's batches and samples": {
        *("_num_yielded", "_sampler_iter_yielded", "samples_yielded", "_iterator_finished"),
        *("_snapshot_step", "_steps_since_snapshot"),
    },
    "this rank's workers and the seed of their random numbers": {
        *("_num_workers", "_base_seed", "_shared_seed", "_last_yielded_worker_id"),
        *("_worker_snapshots", "worker_0", "worker_1", "worker_id"),
    },
    "this rank's data set, where it has a state of its own": {
        *("dataset_state", "fetcher_state", "_IterableDataset_len_called"),
    },
    "around the sampler's own": {
        *("_index_sampler_state", "_sampler_iter_state", "sampler_state", "sampler_iter_state"),
        *("_snapshot", "_main_snapshot"),
    },
}


def keys(state: Mapping[str, Any]) -> set[str]:
    """The keys of a state and of the mappings in it, those in the sampler's own apart."""
    if "origin" in state:
        return set()
    inside = (keys(value) for value in state.values() if isinstance(value, Mapping))
    return set(state).union(*inside)


def test_everything_else_in_a_loaders_state_belongs_to_one_rank() -> None:
    found: set[str] = set()
    seeds = []
    for workers, rank in product((0, 2), range(2)):
        first = rank_of("sampler", workers, rank)
        next(iter(first.tracked()))
        state = first.loader.state_dict()
        found |= keys(state)
        if workers:
            seeds.append(state["_snapshot"]["_main_snapshot"]["_base_seed"])

    assert set().union(*ROLES.values()) == found
    # Ranks that load one rank's state would augment alike, and their workers must be as many.
    assert 2 == len(set(seeds))
    fewer = rank_of("sampler", 1)
    fewer.loader.load_state_dict(state)
    with pytest.raises(AssertionError):
        next(iter(fewer.loader))
