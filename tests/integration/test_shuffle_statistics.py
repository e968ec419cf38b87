"""The statistics of the shuffle over thousands of keys, for both kinds of round function."""

from __future__ import annotations

from math import isqrt, sqrt

import pytest

from elastic_sampler import Permutation

np = pytest.importorskip("numpy", reason="thousands of keys need the NumPy path to be fast")

ONE, TWO = 2**40, 0


@pytest.mark.parametrize("one_table", [ONE, TWO])
@pytest.mark.parametrize(("n", "keys"), [(53, 20_000), (5003, 4000), (70_001, 2000)])
def test_fixed_points_and_neighbours_are_as_many_as_chance_has_it_over_thousands_of_keys(
    n: int, keys: int, one_table: int
) -> None:
    row, here = isqrt(n - 1) + 1, np.arange(n)
    totals = np.zeros(3)
    for seed in range(keys):
        order = Permutation(n, seed, 1, exact=53, one_table=one_table)
        found = np.asarray(order.array(range(n)), dtype=np.int64)
        totals += (
            np.count_nonzero(found == here),
            np.count_nonzero(np.abs(np.diff(found)) == 1),
            np.count_nonzero(np.abs(found[row:] - found[:-row]) == row),
        )

    expected = 1.0, 2 * (n - 1) / n, 2 * (n - row) ** 2 / (n * (n - 1))
    for mean, total in zip(expected, totals.tolist(), strict=True):
        # Close to a Poisson variable, whose variance is its mean.
        assert abs(total / keys - mean) < 4 * sqrt(mean / keys)
