"""The sampler in torch's DataLoader: with and without workers, several ranks in one process."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice
from operator import methodcaller
from typing import Any

import pytest

from elastic_sampler import (
    ElasticDistributedSampler,
    IssuedNotTrainedWarning,
    LoaderMismatchError,
    Permutation,
    World,
    register,
    unregister,
)
from elastic_sampler_providers.static import Static

pytest.importorskip("torch", reason="needs torch: the extra `test`")

from torch.utils.data import BatchSampler, DataLoader

pytestmark = [
    # torch, about machines with less than 2 cores; Python 3.12, about any fork beside threads.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]

N, BATCH = 50, 4

NO_WORKERS: dict[str, Any] = {"num_workers": 0}
FORKED: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}
SPAWNED: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "spawn"}
PERSISTENT: dict[str, Any] = {"persistent_workers": True}

with_and_without_workers = pytest.mark.parametrize(
    "options", [NO_WORKERS, FORKED], ids=["no workers", "fork"]
)
also_persistent = pytest.mark.parametrize(
    "options", [NO_WORKERS, FORKED, FORKED | PERSISTENT], ids=["no workers", "fork", "persistent"]
)


def sampler_of(rank: int, size: int, **options: Any) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(N, **{"shuffle": True, "world": World(rank, size), **options})


def loader_of(sampler: Any, options: dict[str, Any], **more: Any) -> DataLoader[Any]:
    """A loader whose samples are their own indices."""
    samples: Any = range(N)
    return DataLoader(samples, **{"batch_size": BATCH, "sampler": sampler, **options, **more})


def ids(batches: Iterable[Any]) -> list[int]:
    return [index for batch in batches for index in batch.tolist()]


@also_persistent
def test_ranks_share_each_epoch_exactly_once_and_in_its_order(options: dict[str, Any]) -> None:
    size, epochs = 3, 3
    ranks = [sampler_of(rank, size) for rank in range(size)]
    loaders = [loader_of(sampler, options) for sampler in ranks]

    for epoch in range(epochs):
        shares = []
        for sampler, loader in zip(ranks, loaders, strict=True):
            sampler.set_epoch(epoch)
            batches = list(loader)
            assert len(loader) == len(batches)
            shares.append(ids(batches))

        order = Permutation(N, 0, epoch)
        in_step = list(chain.from_iterable(zip(*shares, strict=True)))
        assert list(order) + list(order[: -N % size]) == in_step


@also_persistent
def test_a_tracked_state_is_what_the_loop_received_and_resumes_at_another_world_size(
    options: dict[str, Any],
) -> None:
    trained = []
    for sampler in [sampler_of(rank, 2) for rank in range(2)]:
        loop = iter(sampler.track(loader_of(sampler, options)))
        for steps in range(1, 4):
            trained += ids([next(loop)])
            assert steps * BATCH * 2 == sampler.state_dict()["position"]

    state = json.loads(json.dumps(sampler.state_dict()))
    for resumed in [sampler_of(rank, 3) for rank in range(3)]:
        resumed.load_state_dict(state)
        trained += ids(resumed.track(loader_of(resumed, options)))
        assert N == resumed.state_dict()["position"]
    order = list(Permutation(N, 0, 0))
    assert Counter(order + order[: -(N - 24) % 3]) == Counter(trained)


def test_a_persistent_loader_goes_on_after_a_break_and_into_the_next_epochs() -> None:
    sampler = sampler_of(0, 1)
    loader = loader_of(sampler, FORKED | PERSISTENT)
    trained: dict[int, list[int]] = {0: [], 1: [], 2: []}

    for epoch in sampler.epochs(2):
        for batch in sampler.track(loader):
            trained[epoch] += batch.tolist()
            if epoch == 1 and len(trained[1]) == 5 * BATCH:
                break
    sampler.load_state_dict(sampler.state_dict())
    assert 1 == sampler.epoch
    for epoch in sampler.epochs(3):
        trained[epoch] += ids(sampler.track(loader))

    assert {epoch: list(Permutation(N, 0, epoch)) for epoch in range(3)} == trained


@with_and_without_workers
def test_drop_last_finishes_the_epoch_though_a_batch_is_missing(options: dict[str, Any]) -> None:
    sampler = sampler_of(0, 2)
    loader = loader_of(sampler, options, drop_last=True)
    trained = {epoch: ids(sampler.track(loader)) for epoch in sampler.epochs(2)}

    whole = N // 2 // BATCH * BATCH
    assert {epoch: list(Permutation(N, 0, epoch)[::2])[:whole] for epoch in range(2)} == trained
    assert (1, N) == (sampler.epoch, sampler.state_dict()["position"])


@with_and_without_workers
def test_a_loader_without_batches_counts_one_sample_at_a_time(options: dict[str, Any]) -> None:
    sampler = sampler_of(1, 2)
    loader = loader_of(sampler, options, batch_size=None)
    loop = iter(sampler.track(loader))

    assert list(Permutation(N, 0, 0)[1::2])[:5] == list(islice(loop, 5))
    assert 5 * 2 == sampler.state_dict()["position"]


def test_the_workers_of_a_loader_do_not_divide_the_share_again() -> None:
    alone, forked = (ids(loader_of(sampler_of(1, 3), o)) for o in (NO_WORKERS, FORKED))
    assert list(sampler_of(1, 3)) == alone == forked


def test_spawned_persistent_workers_deliver_the_share_of_every_epoch() -> None:
    sampler = sampler_of(1, 2)
    loader = loader_of(sampler, SPAWNED | PERSISTENT)
    trained = {epoch: ids(sampler.track(loader)) for epoch in sampler.epochs(2)}
    assert {epoch: list(Permutation(N, 0, epoch)[1::2]) for epoch in range(2)} == trained


def test_a_sampler_in_a_spawned_worker_knows_the_world_that_its_parent_was_told() -> None:
    register(Static(World(1, 3)), "told to the parent only")
    try:
        sampler = sampler_of(0, 1, world=None)
        never_asked = sampler_of(0, 1, world=None)
        sampler.load_state_dict({**sampler.state_dict(), "position": 6, "origin": 0})
        share = list(sampler.share())
        next(iter(sampler))  # a running iterator does not travel, the resume point does
        # A data set that holds samplers: what each sample is, the worker finds out.
        questions: Any = [
            partial(getattr, sampler, "world"),
            partial(len, sampler),
            partial(list, sampler),
            partial(getattr, never_asked, "world"),
        ]
        loader = DataLoader[Any](
            questions,
            batch_size=None,
            collate_fn=methodcaller("__call__"),
            num_workers=1,
            multiprocessing_context="spawn",
        )
        world, length, indices, nobody_said = loader
    finally:
        unregister("told to the parent only")

    assert World(1, 3) == world
    assert len(share) == length
    assert share == indices
    assert World(0, 1) == nobody_said


def test_a_loader_with_another_sampler_is_refused_at_its_first_batch() -> None:
    sampler = sampler_of(0, 2)
    loader = loader_of(None, FORKED, shuffle=True)
    with pytest.raises(LoaderMismatchError, match="the first batch did not come from this sampler"):
        next(iter(sampler.track(loader)))
    assert 0 == sampler.state_dict()["position"]


class DealtAgain:
    """Every second batch only: how a framework divides the batches that a sampler has dealt."""

    def __init__(self, batches: BatchSampler) -> None:
        self.batches, self.batch_size, self.drop_last = batches, batches.batch_size, False

    def __iter__(self) -> Iterator[list[int]]:
        return islice(self.batches, 0, None, 2)

    def __len__(self) -> int:
        return -(-len(self.batches) // 2)


@with_and_without_workers
def test_a_loader_that_divides_the_share_again_is_refused(options: dict[str, Any]) -> None:
    sampler = sampler_of(0, 2)
    again: Any = DealtAgain(BatchSampler(sampler, BATCH, drop_last=False))
    samples: Any = range(N)
    loader = DataLoader[Any](samples, batch_sampler=again, **options)
    with pytest.raises(LoaderMismatchError, match="divided once more"):
        list(sampler.track(loader))


@with_and_without_workers
def test_an_untracked_state_in_mid_iteration_warns_once_that_it_counts_what_was_issued(
    options: dict[str, Any],
) -> None:
    sampler = sampler_of(0, 2)
    loop = iter(loader_of(sampler, options))
    next(loop)
    with pytest.warns(IssuedNotTrainedWarning, match="sampler.track") as told:
        position = sampler.state_dict()["position"]
        sampler.state_dict()
    assert 1 == len(told)
    ahead = 2 * options["num_workers"]  # torch's prefetch_factor
    assert min((1 + ahead) * BATCH * 2, N) == position

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(loop)
        sampler.state_dict()
