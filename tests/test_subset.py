"""Parts of data sets, and several in a row."""

from __future__ import annotations

from array import array
from typing import Any

import pytest

from elastic_sampler import ElasticDistributedSampler, World
from elastic_sampler.orders import Concat, Sequential, Shuffled, Subset


def test_a_subset_deals_its_samples_and_no_others() -> None:
    odd = Subset(range(1, 100, 2), Shuffled(50, seed=3))
    dealt = [
        list(ElasticDistributedSampler(100, order=odd, world=World(rank, 5))) for rank in range(5)
    ]

    assert list(range(1, 100, 2)) == sorted(sample for share in dealt for sample in share)
    assert list(odd(0)) != list(odd(1))
    assert [12] == odd(0).find(odd(0)[12])


def test_a_subset_of_a_trillion_costs_nothing() -> None:
    thirds = Subset(range(0, 3 * 10**12, 3), Shuffled(10**12, seed=0))
    sample = thirds(4)[10**11]

    assert 0 == sample % 3
    assert [10**11] == thirds(4).find(sample)


def test_subsets_nest_and_their_indices_may_be_any_integers() -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    inner = Subset([4, 2, 0], Sequential(3))
    expected = [50, 30, 10]
    for indices in (
        [10, 20, 30, 40, 50],
        array("q", [10, 20, 30, 40, 50]),
        numpy.arange(10, 60, 10),
        numpy.arange(10, 60, 10, dtype=numpy.int16),
        range(10, 60, 10),
    ):
        outer = Subset(indices, inner)
        assert expected == list(outer(0))
        assert all(type(sample) is int for sample in outer(0))


def test_the_users_list_can_change_afterwards() -> None:
    indices = [1, 2, 3]
    order = Subset(indices, Sequential(3))
    indices[0] = 9

    assert [1, 2, 3] == list(order(0))
    assert order.fingerprint(0) != Subset(indices, Sequential(3)).fingerprint(0)


@pytest.mark.parametrize(
    ("indices", "order", "error", "message"),
    [
        ([1, -2], Sequential(2), ValueError, r"at least 0, got -2 at indices\[1\]"),
        (range(5, -2, -1), Sequential(2), ValueError, r"at least 0, got range\(5, -2, -1\)"),
        ([1, 2.0], Sequential(2), TypeError, r"indices\[1\] must be an integer, got 2.0"),
        ([True], Sequential(2), TypeError, r"indices\[0\] must be an integer, got True"),
        ([1], [0], TypeError, r"order must be a callable from epoch to a sequence, got \[0\]"),
    ],
)
def test_bad_subsets_are_refused(
    indices: Any, order: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Subset(indices, order)


def test_a_concatenation_deals_one_part_after_the_other() -> None:
    order = Concat({"easy": (30, Shuffled(30)), "hard": (20, Subset([0, 19], Sequential(2)))})
    dealt = list(order(1))

    assert list(range(30)) == sorted(dealt[:30])
    assert [30, 49] == dealt[30:]
    assert [("easy", 29), ("hard", 19)] == [order.part_of(29), order.part_of(49)]
    with pytest.raises(TypeError, match=r"parts\['a'\] must have a callable order, got 3"):
        Concat({"a": (3, 3)})  # type: ignore[dict-item]
