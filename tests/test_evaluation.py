"""Exact evaluation: the accuracy on 1 797 digits does not depend on the number of ranks.

A real classifier, real data, and the counts of all ranks added up, as an all-reduce does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, World
from elastic_sampler.share import Tail

pytest.importorskip("sklearn", reason="needs scikit-learn: the extra `test`")

from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

pytestmark = pytest.mark.filterwarnings("ignore::elastic_sampler.UnequalSharesWarning")

IMAGES, DIGITS = load_digits(return_X_y=True)
N = len(DIGITS)
RIGHT = KNeighborsClassifier(1).fit(IMAGES[:50], DIGITS[:50]).predict(IMAGES) == DIGITS
BATCH, GLOBAL_BATCH = 50, 128

Evaluation = Callable[[ElasticDistributedSampler], Iterator[list[int]]]
"""What one rank evaluates, batch by batch."""

any_world = pytest.mark.parametrize("size", [1, 4, 5])
shuffled_or_not = pytest.mark.parametrize("shuffle", [False, True])


def right(indices: list[int]) -> int:
    """How many of these digits the classifier reads right."""
    return int(RIGHT[indices].sum())


EXACT = int(RIGHT.sum())


def counts(evaluation: Evaluation, size: int, **options: Any) -> tuple[int, int, set[int]]:
    """How many are right, how many were counted, and the numbers of batches of the ranks."""
    correct = total = 0
    steps = set()
    for rank in range(size):
        sampler = ElasticDistributedSampler(N, world=World(rank, size), **options)
        batches = list(evaluation(sampler))
        correct += sum(map(right, batches))
        total += sum(map(len, batches))
        steps.add(len(batches))
    return correct, total, steps


def as_dealt(sampler: ElasticDistributedSampler) -> Iterator[list[int]]:
    share = sampler.share()
    for first in range(0, len(share), BATCH):
        yield list(share[first : first + BATCH])


def share_masked(sampler: ElasticDistributedSampler) -> Iterator[list[int]]:
    """Equal steps for all ranks; the last indices of the share are repeats, and do not count."""
    share = sampler.share()
    real = len(share) - share.padding
    for first in range(0, len(share), BATCH):
        yield list(share[first : first + BATCH])[: max(0, real - first)]


def batches_as_dealt(sampler: ElasticDistributedSampler) -> Iterator[list[int]]:
    yield from ElasticBatchSampler(sampler, GLOBAL_BATCH)


def batches_masked(sampler: ElasticDistributedSampler) -> Iterator[list[int]]:
    """Global batches; the last indices of the last one are repeats, and do not count."""
    batches = ElasticBatchSampler(sampler, GLOBAL_BATCH)
    for k, indices in enumerate(batches):
        yield indices[: len(indices) - batches.padding(k)]


def test_the_classifier_is_neither_perfect_nor_a_guess() -> None:
    assert 0.6 < Fraction(EXACT, N) < 0.95


@any_world
@shuffled_or_not
@pytest.mark.parametrize("evaluation", [as_dealt, batches_as_dealt])
def test_uneven_shares_give_the_exact_accuracy(
    evaluation: Evaluation, shuffle: bool, size: int
) -> None:
    assert (EXACT, N) == counts(evaluation, size, shuffle=shuffle, tail="uneven")[:2]


@any_world
@shuffled_or_not
@pytest.mark.parametrize(
    ("evaluation", "tail"),
    [(share_masked, "wrap"), (batches_masked, "wrap"), (batches_masked, "fill")],
)
def test_equal_steps_with_the_padding_masked_give_the_exact_accuracy(
    evaluation: Evaluation, tail: Tail, shuffle: bool, size: int
) -> None:
    correct, total, steps = counts(evaluation, size, shuffle=shuffle, tail=tail)

    assert (EXACT, N) == (correct, total)
    per_batch = GLOBAL_BATCH if evaluation is batches_masked else BATCH * size
    assert {-(-N // per_batch)} == steps


@pytest.mark.parametrize(("evaluation", "tail"), [(as_dealt, "wrap"), (batches_as_dealt, "fill")])
def test_with_the_padding_counted_the_accuracy_is_not_exact(
    evaluation: Evaluation, tail: Tail
) -> None:
    found = {
        size: counts(evaluation, size, shuffle=False, tail=tail, start_epoch=3)[:2]
        for size in (4, 5)
    }
    assert all(total > N and correct > EXACT for correct, total in found.values())


@any_world
def test_a_tracked_loader_of_global_batches_gives_the_exact_accuracy(size: int) -> None:
    torch_data = pytest.importorskip("torch.utils.data", reason="needs torch: the extra `test`")
    correct = total = 0
    for rank in range(size):
        sampler = ElasticDistributedSampler(N, shuffle=False, tail="wrap", world=World(rank, size))
        batches = ElasticBatchSampler(sampler, GLOBAL_BATCH)
        loader = torch_data.DataLoader(range(N), batch_sampler=batches)
        for k, indices in enumerate(batches.track(loader)):
            real = indices[: len(indices) - batches.padding(k)].tolist()
            correct, total = correct + right(real), total + len(real)
    assert (EXACT, N) == (correct, total)
