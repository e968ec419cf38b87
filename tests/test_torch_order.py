"""The recipe of `docs/how-to/torch-order.md` against torch's own sampler, bit for bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from walks import in_order_of_visits

from elastic_sampler import ElasticDistributedSampler, State, World
from elastic_sampler.share import Tail

pytest.importorskip("torch", reason="compares with torch's DistributedSampler")

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "torch-order.md"


def recipe() -> Any:
    """The class that the page shows."""
    first = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert first is not None
    names: dict[str, Any] = {"__name__": __name__}
    exec(first[1], names)
    return names["TorchOrder"]


TorchOrder = recipe()


def torchs(n: int, size: int, seed: int, epoch: int, drop_last: bool) -> list[list[int]]:
    from torch.utils.data import DistributedSampler

    data: Any = range(n)
    found = []
    for rank in range(size):
        sampler: Any = DistributedSampler(
            data, num_replicas=size, rank=rank, shuffle=True, seed=seed, drop_last=drop_last
        )
        sampler.set_epoch(epoch)
        found.append(list(sampler))
    return found


@settings(max_examples=60)
@given(
    n=st.integers(1, 200),
    size=st.integers(1, 9),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 50),
    drop_last=st.booleans(),
)
def test_each_rank_gets_what_torchs_sampler_gives_it_bit_for_bit(
    n: int, size: int, seed: int, epoch: int, drop_last: bool
) -> None:
    tail: Tail = "drop" if drop_last else "wrap"
    if n < size and drop_last:
        return  # torch then asks for a negative number of samples, or for none
    ours = [
        list(
            ElasticDistributedSampler(
                n, order=TorchOrder(n, seed), start_epoch=epoch, tail=tail, world=World(rank, size)
            )
        )
        for rank in range(size)
    ]

    assert torchs(n, size, seed, epoch, drop_last) == ours


@settings(max_examples=60)
@given(
    n=st.integers(2, 200),
    before=st.integers(1, 9),
    after=st.integers(1, 9),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 50),
    data=st.data(),
)
def test_a_run_that_began_with_torchs_sampler_is_continued_at_another_world_size(
    n: int, before: int, after: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    steps = data.draw(st.integers(0, (n - 1) // before))
    trained = in_order_of_visits([r[:steps] for r in torchs(n, before, seed, epoch, False)])
    order = TorchOrder(n, seed)
    position = steps * before
    state = State(epoch, position, n, seed, order.fingerprint, 0 if position else None)
    ranks = [
        ElasticDistributedSampler(n, order=order, tail="uneven", world=World(rank, after))
        for rank in range(after)
    ]
    for sampler in ranks:
        sampler.load_state_dict(state.to_dict())

    rest = in_order_of_visits([list(sampler) for sampler in ranks])
    assert order(epoch) == trained + rest
