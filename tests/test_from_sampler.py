"""Samplers as they are, dealt to ranks: the same on every rank, whole batches, resumable."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from elastic_sampler import ElasticDistributedSampler, State, StateError, World
from elastic_sampler.orders import FromSampler


def rank_of(order: FromSampler, rank: int, size: int, **options: Any) -> ElasticDistributedSampler:
    return ElasticDistributedSampler(0, order=order, world=World(rank, size), **options)


class Shuffling:
    """A sampler of one's own that draws from Python's global generator."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(20), 20))


class Counting:
    """Tells how often it was iterated over, and in which epochs."""

    def __init__(self) -> None:
        self.epoch, self.passes = -1, list[int]()

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        self.passes.append(self.epoch)
        return iter(range(self.epoch, self.epoch + 6))


class Unseeded:
    """Cannot be seeded: it draws from the operating system."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.SystemRandom().sample(range(1000), 20))


def test_each_rank_gets_its_places_of_what_the_sampler_gives_and_random_numbers_go_on() -> None:
    random.seed(5)
    undisturbed = random.random()
    random.seed(5)
    dealt = [list(rank_of(FromSampler(Shuffling()), rank, 4)) for rank in range(4)]

    assert undisturbed == random.random()
    assert list(range(20)) == sorted(sample for share in dealt for sample in share)
    order = FromSampler(Shuffling())
    assert list(order(0)) != list(order(1))
    assert list(order(0)) != list(FromSampler(Shuffling(), seed=1)(0))
    assert list(order(0)) == list(FromSampler(Shuffling())(0))


def test_a_sampler_is_iterated_over_once_per_epoch_and_told_the_epoch() -> None:
    sampler = Counting()
    rank = rank_of(FromSampler(sampler), 1, 2)
    found = []
    for _ in rank.epochs(3):
        len(rank), repr(rank), rank.state_dict(), rank.share()
        found.append(list(rank))

    assert [0, 1, 2] == sampler.passes
    assert [[1, 3, 5], [2, 4, 6], [3, 5, 7]] == found


def test_ranks_whose_samplers_differ_are_told_apart_by_their_states() -> None:
    states = [rank_of(FromSampler(Unseeded()), rank, 2).state_dict() for rank in range(2)]

    assert ["order"] == list(State.compare(states))


def test_a_job_that_resumes_with_other_draws_is_told_so() -> None:
    before = rank_of(FromSampler(Unseeded()), 0, 2)
    before.advance(3)
    with pytest.raises(StateError, match=r"order of the state is 'sampler/1 .*Unseeded"):
        rank_of(FromSampler(Unseeded()), 0, 3).load_state_dict(before.state_dict())

    same = rank_of(FromSampler(Shuffling()), 0, 2)
    same.advance(3)
    resumed: list[Any] = [
        rank_of(FromSampler(Shuffling()), rank, 3, tail="uneven") for rank in range(3)
    ]
    for sampler in resumed:
        sampler.load_state_dict(same.state_dict())
    expected: Any = FromSampler(Shuffling())(0)[6:]
    assert sorted(expected) == sorted(chain.from_iterable(map(list, resumed)))


def test_batches_stay_whole_and_their_number_need_not_be_known() -> None:
    batches = [[3, 1], [4], [1, 5, 9], [2], [6, 5]]
    order = FromSampler(batches)
    dealt: list[Any] = [list(rank_of(order, rank, 2, tail="uneven")) for rank in range(2)]

    assert [[[3, 1], [1, 5, 9], [6, 5]], [[4], [2]]] == dealt
    assert [3, 2] == [len(rank_of(order, rank, 2, tail="uneven")) for rank in range(2)]
    assert [0, 2] == order(0).find(1)
    assert repr(order(0)) == "ListedBatches(5 batches, 9 indices)"


@pytest.mark.parametrize(
    ("sampler", "error", "message"),
    [
        (5, TypeError, "must be an iterable of indices or batches, got 5"),
        (iter([1, 2]), TypeError, "got an iterator, which does so once"),
        ([1, [2]], TypeError, "got some of each"),
        ([[2], 1], TypeError, "got some of each"),
        ([1.5], TypeError, "what a sampler gives must be an integer, got 1.5"),
        ([[1.5]], TypeError, "what a sampler gives must be an integer, got 1.5"),
        ([True], TypeError, "what a sampler gives must be an integer, got True"),
        ([3, -1], ValueError, "what a sampler gives must be at least 0, got -1"),
    ],
)
def test_what_is_no_sampler_is_refused(sampler: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        FromSampler(sampler)(0)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="needs PyTorch")


def test_torchs_samplers_are_dealt_the_same_on_every_rank_with_and_without_a_generator(
    torch: Any,
) -> None:
    from torch.utils import data

    kinds: dict[str, Any] = {
        "weighted": lambda g: data.WeightedRandomSampler([1.0, 0, 3, 2], 50, generator=g),
        "subset": lambda g: data.SubsetRandomSampler(range(10, 40), generator=g),
        "random": lambda g: data.RandomSampler(range(30), generator=g),
        "batches": lambda g: data.BatchSampler(
            data.RandomSampler(range(30), generator=g), 4, drop_last=False
        ),
    }
    for name, make in kinds.items():
        for generator in (lambda: None, torch.Generator):
            torch.manual_seed(3)
            expected = torch.rand(3).tolist()
            torch.manual_seed(3)
            orders = [FromSampler(make(generator()), seed=7) for _ in range(3)]
            found: Any = [[list(order(epoch)) for epoch in range(2)] for order in orders]

            assert found[0] == found[1] == found[2], name
            assert found[0][0] != found[0][1]
            assert expected == torch.rand(3).tolist()
            inner = {
                index for item in found[0][0] for index in (item if name == "batches" else [item])
            }
            assert all(type(index) is int for index in inner)
            assert [orders[0].fingerprint(0)] * 2 == [order.fingerprint(0) for order in orders[1:]]


def test_numpys_global_generator_is_seeded_and_put_back(torch: Any) -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")

    class Permuting:
        def __iter__(self) -> Iterator[int]:
            return iter(numpy.random.permutation(30))

    numpy.random.seed(1)
    expected = numpy.random.rand()
    numpy.random.seed(1)
    found = [list(FromSampler(Permuting())(2)) for _ in range(2)]
    assert found[0] == found[1]
    assert expected == numpy.random.rand()


def test_a_sampler_that_deals_to_ranks_by_itself_is_refused(torch: Any) -> None:
    from torch.utils.data import DistributedSampler

    data: Any = range(10)
    with pytest.raises(ValueError, match="got DistributedSampler for 2 ranks"):
        FromSampler(DistributedSampler(data, num_replicas=2, rank=0))


def test_whole_batches_go_through_torchs_loader_and_are_tracked(torch: Any) -> None:
    from torch.utils import data

    values = torch.arange(100)
    inner = data.BatchSampler(data.RandomSampler(values), 8, drop_last=False)
    seen, states = [], []
    for rank in range(2):
        sampler = rank_of(FromSampler(inner, seed=1), rank, 2, tail="uneven")
        loader = data.DataLoader(values, batch_sampler=sampler, num_workers=2)  # type: ignore[arg-type]
        for step, batch in enumerate(sampler.track(loader)):
            seen += batch.tolist()
            if step == 3:
                states.append(sampler.state_dict())
                break
    assert states[0] == states[1]
    assert (8, 13) == (states[0]["position"], states[0]["num_samples"])

    for rank in range(3):
        sampler = rank_of(FromSampler(inner, seed=1), rank, 3, tail="uneven")
        sampler.load_state_dict(states[0])
        loader = data.DataLoader(values, batch_sampler=sampler)  # type: ignore[arg-type]
        for batch in sampler.track(loader):
            seen += batch.tolist()
    assert list(range(100)) == sorted(seen)


def test_torch_and_numpy_are_not_imported_for_a_sampler_that_does_not_need_them() -> None:
    code = (
        "import sys\n"
        "from elastic_sampler.orders import FromSampler\n"
        "assert list(FromSampler([3, 1, 2])(0)) == [3, 1, 2]\n"
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
