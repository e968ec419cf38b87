"""NumPy is only an accelerator: the same to the bit, not required, imported when it is worth it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import epochs, seeds, tails, world_sizes

from elastic_sampler import ElasticDistributedSampler, Permutation, World, permutation
from elastic_sampler.arrays import WORTHWHILE, array
from elastic_sampler.order import read
from elastic_sampler.orders import Rotation
from elastic_sampler.share import Tail

np = pytest.importorskip("numpy", reason="needs NumPy")

GOLDEN = Path(__file__).parent / "golden" / "shuffled-1.json"

large = st.one_of(
    st.integers(WORTHWHILE, 20_000),
    st.integers(4097, 10**13),
    st.sampled_from([2**32, 2**32 + 1, 3 * 2**30, 2048**2, 2048**2 + 1, 10**12]),
)


@given(large, seeds, epochs, st.integers(1, 10**6), st.data())
def test_the_numpy_path_is_the_pure_one_to_the_bit(
    n: int, seed: int, epoch: int, step: int, data: st.DataObject
) -> None:
    one_table = data.draw(st.sampled_from([0, 2048]))
    order = Permutation(n, seed, epoch, exact=0, one_table=one_table)
    step = min(step, max(1, n // WORTHWHILE))
    start = data.draw(st.integers(0, n - 1))
    places = range(start, n, step)[: data.draw(st.sampled_from([WORTHWHILE, 3000]))]
    shuffle = order._shuffle
    assert isinstance(shuffle, permutation.Feistel)
    assert shuffle._rounds is not None

    expected = shuffle._walked(places)
    assert expected == shuffle._rounds.take(places).tolist()
    assert expected == order.take(places)
    assert {int} == {type(sample) for sample in order.take(places)}


def test_the_numpy_path_is_right_at_the_largest_size() -> None:
    n = 2**62
    order = Permutation(n, 0, 0)
    shuffle = order._shuffle
    assert isinstance(shuffle, permutation.Feistel)
    for start in (0, n // 2, n - 1000):
        places = range(start, start + 1000)
        samples = order.take(places)

        assert shuffle._walked(places) == samples
        assert list(places) == [order.index(sample) for sample in samples]


def test_the_golden_order_is_that_of_the_numpy_path_too() -> None:
    for case in json.loads(GOLDEN.read_text()):
        order = Permutation(case["n"], case["seed"], case["epoch"])

        assert case["first"] == order[:5000][:12]
        assert case["last"] == order[max(0, case["n"] - 5000) :][-4:]


@given(st.integers(1, 30_000), world_sizes, tails, st.booleans(), st.integers(-3, 3).filter(bool))
def test_a_share_as_an_array_is_the_share(
    n: int, size: int, tail: Tail, shuffle: bool, step: int
) -> None:
    sampler = ElasticDistributedSampler(
        n, shuffle=shuffle, tail=tail, start_epoch=3, world=World(0, size)
    )
    share = sampler.share()[::step]
    found = share.numpy()

    assert np.int64 == found.dtype
    assert (len(share),) == found.shape
    assert list(share) == found.tolist()
    assert list(share[3:50]) == share[3:50].numpy().tolist()


@pytest.mark.parametrize(
    "order", [range(5, 50, 3), [3, 1, 2], Rotation(40_000, 7), np.arange(9)[::-1]]
)
def test_every_order_can_be_read_as_an_array(order: object) -> None:
    for places in (range(70_000), range(60_001, 5, -7), range(0)):
        assert read(order, places) == array(order, places).tolist()  # type: ignore[arg-type]


def test_the_tables_are_shared_by_samplers_of_one_epoch_and_freed_with_them() -> None:
    gc.collect()
    before = len(permutation._shared)
    samplers = [
        ElasticDistributedSampler(10**7, shuffle=True, seed=5, world=World(rank, 4))
        for rank in range(4)
    ]
    for sampler in samplers:
        next(iter(sampler))
    assert before + 1 == len(permutation._shared)

    for sampler in samplers:
        sampler.set_epoch(1)
        next(iter(sampler))
    gc.collect()
    assert before + 1 == len(permutation._shared)
    del samplers, sampler
    gc.collect()
    assert before == len(permutation._shared)


def loaded(code: str) -> bool:
    """Whether NumPy is loaded after some code in a fresh process."""
    code += "; import sys; print('numpy' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return "True" in ran.stdout


def test_numpy_is_imported_for_many_indices_and_not_for_few() -> None:
    make = "from elastic_sampler import *; s = ElasticDistributedSampler(10**6, shuffle=True"
    assert not loaded(f"{make}, world=World(0, 1)); it = iter(s); [next(it) for _ in range(100)]")
    assert loaded(f"{make}, world=World(0, 1)); sum(1 for _ in s)")
    assert not loaded(f"{make[:-14]}, world=World(0, 1)); sum(1 for _ in s)")


def test_without_numpy_everything_works_but_arrays() -> None:
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from elastic_sampler import *\n"
        "s = ElasticDistributedSampler(10**4, shuffle=True, world=World(0, 1))\n"
        "assert sorted(s) == list(range(10**4))\n"
        "try: s.share().numpy()\n"
        "except ImportError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert "arrays need NumPy: pip install numpy\n" == ran.stdout
