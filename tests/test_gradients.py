"""Gradients at any world size are those of one process on the whole global batch.

The ranks are in one process here, and their gradients averaged as DistributedDataParallel does it;
real gloo ranks are in `integration/test_live_resize.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, World
from elastic_sampler.share import TAILS, Tail

pytest.importorskip("torch", reason="needs torch: the extra `test`")
pytest.importorskip("sklearn", reason="needs scikit-learn: the extra `test`")

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore::elastic_sampler.UnequalSharesWarning")

N, GLOBAL_BATCH = 205, 48  # four whole global batches, and one of 13

PIXELS, DIGITS = load_digits(n_class=10, return_X_y=True)
IMAGES, LABELS = torch.tensor(PIXELS[:N]) / 16, torch.tensor(DIGITS[:N])  # float64

any_tail = pytest.mark.parametrize("tail", TAILS)
with_and_without_micro_batches = pytest.mark.parametrize(
    "micro", [None, 5], ids=["whole", "micro-batches"]
)


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 10)).double()


def gradients(model: nn.Module) -> Tensor:
    """The gradients since the last call, in a row."""
    found = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch.cat([grad.flatten() for grad in found])
    model.zero_grad()
    return flat


def mean_loss(model: nn.Module, indices: list[int]) -> Tensor:
    return nn.functional.cross_entropy(model(IMAGES[indices]), LABELS[indices])


def batches_of(
    rank: int, size: int, tail: Tail, micro: int | None, start: int = 0
) -> ElasticBatchSampler:
    sampler = ElasticDistributedSampler(N, shuffle=True, seed=3, tail=tail, world=World(rank, size))
    if start:
        sampler.load_state_dict({**sampler.state_dict(), "position": start, "origin": 0})
    return ElasticBatchSampler(sampler, GLOBAL_BATCH, micro_batch_size=micro)


def of_one_rank(batches: ElasticBatchSampler, scaled: bool = True) -> list[Tensor]:
    """The gradients that a rank hands to the others, step by step: the recipe's loop."""
    model, found = net(), []
    for i, indices in enumerate(batches):
        loss: Any = mean_loss(model, indices)
        if scaled:
            loss = loss * batches.loss_scale(i)
        loss.backward()
        if batches.ends_step(i):
            found.append(gradients(model))
    return found


def averaged(
    size: int, tail: Tail, micro: int | None, *, start: int = 0, scaled: bool = True
) -> list[Tensor]:
    """Step by step, the mean over ranks; one without a part of the last batch has none to give."""
    ranks = [
        of_one_rank(batches_of(rank, size, tail, micro, start), scaled) for rank in range(size)
    ]
    steps = max(map(len, ranks))
    return [
        torch.stack([steps_of_rank[k] for steps_of_rank in ranks if k < len(steps_of_rank)]).sum(0)
        / size
        for k in range(steps)
    ]


def of_one_process(tail: Tail, start: int = 0) -> list[Tensor]:
    """Of the mean loss over each global batch, in one process without any of our scaling."""
    model, found = net(), []
    for indices in batches_of(0, 1, tail, None, start):
        loss: Any = mean_loss(model, indices)
        loss.backward()
        found.append(gradients(model))
    return found


def to_rounding(expected: Tensor, actual: Tensor) -> bool:
    """Whether they are equal but for the order of the sums, in float64."""
    scale = float(expected.abs().max())
    return torch.allclose(expected, actual, rtol=0, atol=1e-15 * scale * GLOBAL_BATCH)


@any_tail
@with_and_without_micro_batches
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_averaged_gradients_are_those_of_one_process_on_the_whole_global_batch(
    size: int, tail: Tail, micro: int | None
) -> None:
    expected, actual = of_one_process(tail), averaged(size, tail, micro)

    assert (5 if tail != "drop" else 4) == len(expected) == len(actual)
    # "wrap" rounds the last batch up to a multiple of the ranks: only there it is another batch.
    same = slice(-1) if tail == "wrap" and -13 % size else slice(None)
    for one, many in zip(expected[same], actual[same], strict=True):
        assert to_rounding(one, many)


@with_and_without_micro_batches
def test_wrap_around_repeats_weigh_as_samples_of_the_last_batch(micro: int | None) -> None:
    actual = averaged(5, "wrap", micro)[-1]
    parts = [list(batches_of(rank, 5, "wrap", None))[-1] for rank in range(5)]
    assert [3] * 5 == [len(part) for part in parts]  # 13 and two from the head of the epoch

    model = net()
    loss: Any = mean_loss(model, [index for part in parts for index in part])
    loss.backward()
    assert to_rounding(gradients(model), actual)


@with_and_without_micro_batches
def test_the_gradients_of_an_epoch_resized_in_between_are_those_of_one_process(
    micro: int | None,
) -> None:
    expected = of_one_process("fill")
    history = [(0, 3), (1, 5), (2, 2), (4, 5), (5, 1)]  # from this step on, this world size
    actual = []
    for (step, size), (until, _) in pairwise(history):
        start = step * GLOBAL_BATCH
        actual += averaged(size, "fill", micro, start=start)[: until - step]

    assert len(expected) == len(actual)
    assert all(map(to_rounding, expected, actual))


@pytest.mark.parametrize(("size", "micro"), [(5, None), (5, 5), (3, 5)])
def test_without_the_scale_they_are_not(size: int, micro: int | None) -> None:
    expected, actual = of_one_process("uneven"), averaged(size, "uneven", micro, scaled=False)

    assert not any(map(to_rounding, expected, actual))
