"""Iterable data in the workers of torch's DataLoader: a share is split between them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pytest

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    Permutation,
    World,
)

pytest.importorskip("torch", reason="needs torch: the extra `test`")

from spawned_streams import (
    BATCH,
    PersistentStream,
    Stream,
    StreamOfBatches,
    Unsplit,
    UnsplitShare,
)
from torch.utils.data import DataLoader

pytestmark = [
    # torch, about machines with less cores; Python 3.12, about any fork beside threads.
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded, use of fork"),
]

N = 50


def sampler_of(rank: int, size: int, **options: Any) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(
        N, **{"shuffle": True, "tail": "uneven", "world": World(rank, size), **options}
    )


def loader_of(stream: Stream, workers: int, how: str = "fork", **more: Any) -> DataLoader[Any]:
    more.setdefault("multiprocessing_context", how if workers else None)
    return DataLoader[Any](stream, **{"batch_size": BATCH, "num_workers": workers, **more})


def ids(batches: Iterable[Any]) -> list[int]:
    return [index for batch in batches for index in batch.tolist()]


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_split_between_any_number_of_workers_the_batches_are_those_of_the_share_in_order(
    workers: int,
) -> None:
    sampler, stream = sampler_of(1, 3), Stream()
    stream.share = share = sampler.share()

    batches = [batch.tolist() for batch in loader_of(stream, workers)]
    assert [list(share[i : i + BATCH]) for i in range(0, len(share), BATCH)] == batches


def test_more_workers_than_samples_end_quietly() -> None:
    sampler, stream = ElasticDistributedSampler(4, shuffle=False, world=World(0, 2)), Stream()
    stream.share = sampler.share()
    assert [0, 2] == ids(loader_of(stream, 3, batch_size=1))


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 0), (0, 2)])
def test_a_tracked_stream_resumes_at_another_world_size_and_number_of_workers(
    before: int, after: int
) -> None:
    trained = []
    for rank in range(2):
        sampler, stream = sampler_of(rank, 2), Stream()
        stream.share = sampler.share()
        loop = iter(sampler.track(loader_of(stream, before)))
        for step in range(1, 4):
            trained += ids([next(loop)])
            assert step * BATCH * 2 == sampler.state_dict()["position"]

    state = json.loads(json.dumps(sampler.state_dict()))
    for rank in range(3):
        sampler, stream = sampler_of(rank, 3), Stream()
        sampler.load_state_dict(state)
        for epoch in sampler.epochs(1):
            assert 0 == epoch
            stream.share = sampler.share()
            trained += ids(sampler.track(loader_of(stream, after)))
        assert N == sampler.state_dict()["position"]
    assert sorted(range(N)) == sorted(trained)


def test_a_stream_of_whole_batches_is_tracked_by_steps() -> None:
    batches, stream = ElasticBatchSampler(sampler_of(0, 2), 10), StreamOfBatches()
    loader = loader_of(stream, 2, batch_size=None)
    trained = []

    stream.share = batches.share()
    trained += ids(islice(batches.track(loader), 3))
    assert 30 == batches.state_dict()["position"]
    batches.load_state_dict(batches.state_dict())
    stream.share = batches.share()
    trained += ids(batches.track(loader))
    assert list(Permutation(N, 0, 0)[::2]) == trained


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_persistent_workers_see_the_share_of_every_epoch_in_shared_memory(how: str) -> None:
    sampler, stream = sampler_of(1, 2), PersistentStream()
    loader = loader_of(stream, 2, how, persistent_workers=True)
    trained: dict[int, list[int]] = {0: [], 1: [], 2: []}

    for epoch in sampler.epochs(2):
        stream.set_share(sampler.share())
        for batch in sampler.track(loader):
            trained[epoch] += batch.tolist()
            if epoch == 1 and len(trained[1]) == 3 * BATCH:
                break
    sampler.load_state_dict(sampler.state_dict())
    for epoch in sampler.epochs(3):
        stream.set_share(sampler.share())
        trained[epoch] += ids(sampler.track(loader))
    assert {epoch: list(Permutation(N, 0, epoch)[1::2]) for epoch in range(3)} == trained


def test_persistent_workers_keep_the_share_that_they_were_started_with() -> None:
    # What the memory above is for; if torch should ever send the data set anew, it is not needed.
    sampler, stream = sampler_of(0, 1), Stream()
    loader = loader_of(stream, 2, persistent_workers=True)
    trained = []
    for _ in sampler.epochs(2):
        stream.share = sampler.share()
        trained.append(ids(loader))
    assert [list(Permutation(N, 0, 0))] * 2 == trained


def test_a_stream_that_is_given_no_new_share_is_refused() -> None:
    sampler, stream = sampler_of(0, 2), Stream()
    stream.share = sampler.share()
    loader = loader_of(stream, 2)
    assert list(Permutation(N, 0, 0)[::2]) == ids(sampler.track(loader))
    sampler.set_epoch(1)
    with pytest.raises(LoaderMismatchError, match="was not given a new one for this pass"):
        next(iter(sampler.track(loader)))


def test_a_stream_that_is_not_split_is_refused_when_the_share_is_through() -> None:
    sampler, stream = sampler_of(0, 2), UnsplitShare()
    stream.share = sampler.share()
    with pytest.raises(LoaderMismatchError, match="this rank's share is 25 indices, 4 a batch"):
        list(sampler.track(loader_of(stream, 2)))


def test_a_loader_with_a_sampler_of_its_own_is_refused_though_a_share_was_asked_for() -> None:
    sampler = sampler_of(0, 2)
    samples: Any = range(N)
    sampler.share()
    with pytest.raises(LoaderMismatchError, match="the first batch did not come from this sampler"):
        next(iter(sampler.track(DataLoader[Any](samples, BATCH, shuffle=True))))


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_sampler_that_is_iterated_in_one_of_several_workers_warns_once(how: str) -> None:
    sampler = ElasticDistributedSampler(4, shuffle=False, world=World(0, 2))
    for workers in (0, 1, 2):
        stream: Any = Unsplit(sampler)
        for said in loader_of(stream, workers, how, batch_size=None):
            assert said.startswith("[0, 2]")
            assert (workers == 2) == ("in one of the 2 workers of a loader" in said)
            assert (workers == 2) == (said.count("share.split(worker.id") == 1)
