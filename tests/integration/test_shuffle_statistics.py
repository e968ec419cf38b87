"""The statistics of the shuffle over thousands of keys, for both kinds of round function."""

from __future__ import annotations

from math import isqrt, sqrt

import numpy as np
import pytest
from vectorised import shuffled

from elastic_sampler import Permutation

ONE, TWO = 2**40, 0


@pytest.mark.parametrize(
    ("n", "one_table"),
    [
        (5003, ONE),
        (5003, TWO),
        (70_001, ONE),
        (70_001, TWO),
        (2**25, ONE),
        (2**25, TWO),
        (10**12, TWO),
    ],
)
def test_what_is_counted_here_is_the_shuffle_itself(n: int, one_table: int) -> None:
    order = Permutation(n, 5, 6, exact=0, one_table=one_table)
    places = range(3, min(n, 30_000), 7)

    assert order[3 : places.stop : 7] == shuffled(order, places).tolist()


@pytest.mark.parametrize("one_table", [ONE, TWO])
@pytest.mark.parametrize(("n", "keys"), [(53, 20_000), (5003, 4000), (70_001, 2000)])
def test_fixed_points_and_neighbours_are_as_many_as_chance_has_it_over_thousands_of_keys(
    n: int, keys: int, one_table: int
) -> None:
    row, here = isqrt(n - 1) + 1, np.arange(n, dtype=np.uint64)
    totals = np.zeros(3)
    for seed in range(keys):
        order = Permutation(n, seed, 1, exact=53, one_table=one_table)
        found = np.array(order[:]) if n <= 53 else shuffled(order, range(n)).astype(np.int64)
        totals += (
            np.count_nonzero(found == here),
            np.count_nonzero(np.abs(np.diff(found)) == 1),
            np.count_nonzero(np.abs(found[row:] - found[:-row]) == row),
        )

    expected = 1.0, 2 * (n - 1) / n, 2 * (n - row) ** 2 / (n * (n - 1))
    for mean, total in zip(expected, totals.tolist(), strict=True):
        # Close to a Poisson variable, whose variance is its mean.
        assert abs(total / keys - mean) < 4 * sqrt(mean / keys)
