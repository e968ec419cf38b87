"""Grain, for real: a share as source and as sampler, worker processes, one state of two."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    Permutation,
    World,
    audit,
)
from elastic_sampler.grain_sampler import GrainSampler

PROGRAM = Path(__file__).with_name("jax_grain_rank.py")

N, G = 500, 24


@pytest.fixture
def grain() -> Any:
    need(find_spec("grain"), "needs Grain: the extra `jax`")
    import grain

    return grain


def sampler_of(rank: int, size: int, position: int = 0) -> ElasticDistributedSampler:
    sampler = ElasticDistributedSampler(
        N, shuffle=True, seed=0, tail="fill", world=World(rank, size)
    )
    if position:
        sampler.load_state_dict({**sampler.state_dict(), "position": position, "origin": 0})
    return sampler


@pytest.mark.parametrize("kind", ["dataset", "loader"])
def test_ranks_that_load_with_grain_resume_in_mid_epoch_at_another_number_of_processes(
    kind: str, grain: Any, processes: Processes, tmp_path: Path
) -> None:
    def run(number: int, size: int, steps: int) -> None:
        started = [
            processes.start(
                f"rank {rank} of {size}",
                [sys.executable, PROGRAM, kind, tmp_path, *map(str, (rank, size, number, steps))],
            )
            for rank in range(size)
        ]
        for process in started:
            assert 0 == process.wait(240), process.output

    run(0, size=2, steps=9)
    states = {(tmp_path / f"job-{rank}.json").read_text() for rank in range(2)}
    assert 1 == len(states)
    (state,) = states
    assert 9 * G == json.loads(state)["sampler"]["position"]
    (tmp_path / "job.json").write_text(state)
    run(1, size=3, steps=-1)

    report = audit(tmp_path.glob("*.jsonl"), N, tail="fill", places=G)
    assert report.exact, str(report)
    assert [0, 1] == [epoch.epoch for epoch in report.epochs]
    assert [N <= epoch.trained < N + G for epoch in report.epochs] == [True, True]


def test_a_share_is_a_source_and_a_new_epoch_a_new_one(grain: Any) -> None:
    sampler = sampler_of(1, 2)
    for epoch in sampler.epochs(2):
        share = sampler.share()
        source = grain.MapDataset.source(share)
        assert len(share) == len(source)
        batched = source.batch(10).to_iter_dataset()
        batches = [batch.tolist() for batch in sampler.track(batched, batch_size=10)]
        order = list(Permutation(N, 0, epoch))
        assert [order[1::2][i : i + 10] for i in range(0, N // 2, 10)] == batches
        assert N == sampler.state_dict()["position"]

    batches_of = ElasticBatchSampler(sampler_of(1, 2), G).share()
    assert list(batches_of) == list(grain.MapDataset.source(batches_of).to_iter_dataset())


def loader_of(grain: Any, share: Any, *operations: Any, seed: Any = None) -> Any:
    return grain.DataLoader(
        data_source=range(N),
        sampler=GrainSampler(share, seed),
        shard_options=grain.sharding.NoSharding(),
        operations=operations,
    )


def test_random_maps_draw_the_same_for_a_sample_at_every_world_size_and_after_a_resume(
    grain: Any,
) -> None:
    class Draw(grain.transforms.RandomMap):  # type: ignore[misc]
        def random_map(self, sample: int, rng: Any) -> tuple[int, int]:
            return sample, int(rng.integers(2**60))

    def drawn(size: int, position: int, seed: Any) -> dict[int, int]:
        return {
            sample: number
            for rank in range(size)
            for sample, number in islice(
                loader_of(grain, sampler_of(rank, size, position).share(), Draw(), seed=seed),
                (N - position) // size,
            )
        }

    alone = drawn(1, 0, (7, 0))
    assert alone == drawn(2, 0, (7, 0))
    rest = drawn(4, 300, (7, 0))
    assert 200 == len(rest)
    assert {sample: alone[sample] for sample in rest} == rest
    assert N == len(set(alone.values()))
    assert not set(alone.values()) & set(drawn(1, 0, (7, 1)).values())


def test_grains_state_is_refused_with_another_share_and_goes_on_with_the_same(grain: Any) -> None:
    share = sampler_of(0, 2).share()
    begun = iter(loader_of(grain, share, grain.transforms.Batch(10)))
    next(begun)
    state = begun.get_state()

    for other in (sampler_of(0, 2, 20), sampler_of(0, 3), sampler_of(1, 2)):
        resumed = iter(loader_of(grain, other.share(), grain.transforms.Batch(10)))
        with pytest.raises(ValueError, match="Sampler in checkpoint does not match"):
            resumed.set_state(state)

    resumed = iter(loader_of(grain, share, grain.transforms.Batch(10)))
    resumed.set_state(state)
    assert [batch.tolist() for batch in begun] == [batch.tolist() for batch in resumed]


def test_restoring_grains_state_as_well_as_the_samplers_is_found_by_track(grain: Any) -> None:
    before = sampler_of(0, 2)
    source = grain.MapDataset.source(before.share()).batch(10).to_iter_dataset()
    tracked = iter(source)
    for _ in islice(before.track(tracked, batch_size=10), 3):
        pass
    grains = tracked.get_state()

    class RestoredTwice:
        """The share that is left, less what Grain has skipped once more."""

        def __iter__(self) -> Iterator[Any]:
            iterator = iter(grain.MapDataset.source(after.share()).batch(10).to_iter_dataset())
            iterator.set_state(grains)
            return iter(iterator)

    after = sampler_of(0, 2)
    after.load_state_dict(before.state_dict())
    with pytest.raises(LoaderMismatchError, match="delivered 19 batches"):
        list(after.track(RestoredTwice(), batch_size=10))


def test_a_grain_sampler_needs_a_share_and_says_which_records_it_has(grain: Any) -> None:
    sampler = GrainSampler(sampler_of(0, 2).share())

    record = sampler[3]
    assert (3, Permutation(N, 0, 0)[6], None) == (record.index, record.record_key, record.rng)
    with pytest.raises(IndexError, match=r"record index must be in \[0, 250\), got 250"):
        sampler[250]
    wrong: Any = sampler_of(0, 2)
    with pytest.raises(TypeError, match=r"share must be a Share, as sampler.share\(\) gives"):
        GrainSampler(wrong)
