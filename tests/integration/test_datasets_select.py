"""The share of a rank as the argument of `datasets.Dataset.select`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes
from integration.frameworks import installed, resized_job_is_exact

from elastic_sampler import ElasticDistributedSampler, LoaderMismatchError, World

RANK = Path(__file__).with_name("datasets_rank.py")


def numbers(count: int) -> Any:
    installed("datasets", "torch")
    from datasets import Dataset

    return Dataset.from_dict({"i": range(count)})


def test_a_job_that_selects_shares_killed_and_resized_in_mid_epoch_trains_each_sample_once(
    processes: Processes,
) -> None:
    installed("datasets", "torch")
    resized_job_is_exact(processes, RANK)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5, 7])
def test_what_the_ranks_select_without_their_padding_is_what_is_left(
    shuffle: bool, size: int
) -> None:
    data = numbers(101)
    rows: list[int] = []
    for rank in range(size):
        sampler = ElasticDistributedSampler(data, shuffle=shuffle, world=World(rank, size))
        state = {**sampler.state_dict(), "position": 17, "origin": 0}
        sampler.load_state_dict(state)
        share = sampler.share()
        selected = data.select(share)

        assert list(share) == selected["i"][:]
        assert -(-84 // size) == len(selected) == len(sampler)
        rows += selected["i"][: len(share) - share.padding]
    alone = ElasticDistributedSampler(data, shuffle=shuffle, world=World(0, 1))
    assert sorted(list(alone)[17:]) == sorted(rows)


def test_equal_shares_have_equal_fingerprints_so_that_cached_results_are_found_again() -> None:
    data = numbers(5000)

    def fingerprint(rank: int, *, used: bool) -> str:
        share = ElasticDistributedSampler(data, shuffle=True, seed=1, world=World(rank, 2)).share()
        if used:
            assert 2500 == len(list(share))
        return str(data.select(share)._fingerprint)

    assert fingerprint(0, used=False) == fingerprint(0, used=True)
    assert fingerprint(0, used=False) != fingerprint(1, used=False)


def test_selecting_and_sampling_at_once_is_noticed() -> None:
    data = numbers(1000).with_format("torch")
    from torch.utils.data import DataLoader, DistributedSampler

    sampler = ElasticDistributedSampler(data, shuffle=True, seed=0, world=World(0, 2))
    selected = data.select(sampler.share())
    again: Any = DistributedSampler(selected, num_replicas=2, rank=0)
    for loader in (DataLoader(selected, 10), DataLoader(selected, 10, sampler=again)):
        with pytest.raises(LoaderMismatchError, match="did not come from this sampler"):
            next(iter(sampler.track(loader)))
