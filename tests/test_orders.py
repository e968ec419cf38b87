"""The laws, for every kind of order: a new one is one more line in `ORDERS`."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import epochs, histories, seeds, tails, world_sizes
from walks import in_order_of_visits, ranks_of, walk

from elastic_sampler import EpochOrder, FullOrder, LazyOrder, Share, simulate
from elastic_sampler.order import find, has, name_of
from elastic_sampler.orders import (
    BlockShuffled,
    Concat,
    FromSampler,
    Grouped,
    Mixture,
    Sequential,
    Shuffled,
    Subset,
    Weighted,
)
from elastic_sampler.share import Tail


@dataclass(frozen=True)
class Backwards:
    """An order as a user would write one: it extends nothing, and has no name of its own."""

    num_samples: int

    def __call__(self, epoch: int) -> list[int]:
        return list(range(self.num_samples))[::-1]


@dataclass(frozen=True)
class Sampling:
    """A sampler as a user would write one, which draws from a global generator."""

    num_samples: int

    def __iter__(self) -> Iterator[int]:
        return iter(random.choices(range(self.num_samples + 1), k=self.num_samples))


@dataclass(frozen=True)
class Batching:
    """A sampler that gives batches, of no number that is known before."""

    num_samples: int

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(random.randrange(5), self.num_samples, 4):
            yield list(range(start, start + random.randrange(1, 5)))


Make: TypeAlias = Callable[[int, int], EpochOrder]
"""(a size, a seed) -> an order of about that size."""

ORDERS: dict[str, Make] = {
    "sequential": lambda n, seed: Sequential(n),
    "shuffled": lambda n, seed: Shuffled(n, seed),
    "one's own": lambda n, seed: Backwards(n),
    "weighted": lambda n, seed: Weighted([*range(n), 5], n, seed=seed),
    "weighted, without replacement": lambda n, seed: Weighted(
        [i % 3 for i in range(n + 2)], replacement=False, seed=seed
    ),
    "block shuffled": lambda n, seed: BlockShuffled(n, 7, seed=seed, window=3),
    "block shuffled, of sizes": lambda n, seed: BlockShuffled(
        3 * n, [*range(n)[::2], 3 * n - sum(range(n)[::2])] if n < 7 else [n, 2 * n], seed=seed
    ),
    "from a sampler": lambda n, seed: FromSampler(Sampling(n), seed=seed),
    "from a sampler, batches": lambda n, seed: FromSampler(Batching(n), seed=seed),
    "grouped": lambda n, seed: Grouped([i * i % 5 for i in range(n)], 3, seed=seed),
    "grouped, whole": lambda n, seed: Grouped(
        [i * i % 5 for i in range(n)], {0: 1, 1: 4, 4: 6}, seed=seed, drop_last=True
    ),
    "grouped, by length": lambda n, seed: Grouped.by_length(
        [i % 11 for i in range(n)], token_budget=30, buckets=4, seed=seed
    ),
    "subset": lambda n, seed: Subset([3 * i % n for i in range(n)], Shuffled(n, seed)),
    "subset, a range": lambda n, seed: Subset(range(5, 5 + 2 * n, 2), Shuffled(n, seed)),
    "concat": lambda n, seed: Concat(
        {"a": (n, Shuffled(n, seed)), "b": (0, Sequential(0)), "c": (3, Weighted([1, 0, 2], 2))}
    ),
    "mixture": lambda n, seed: Mixture(
        {"a": (n + 1, 2), "b": (5, 0.5), "c": (7, 0), "d": (n // 2 + 1, 1)}, n, seed=seed
    ),
    "mixture, whole": lambda n, seed: Mixture(
        {"a": (n // 8 + 1, 1), "b": (3, 98)}, seed=seed, shuffle=False
    ),
}

each_order = pytest.mark.parametrize(
    "make", [pytest.param(m, id=name) for name, m in ORDERS.items()]
)
sizes = st.integers(0, 60)
few = settings(max_examples=30)  # of each law for each order


def places_of(order: EpochOrder, epoch: int) -> list[Any]:
    """What the order has at its positions, one after the other."""
    items = cast("Sequence[Any]", order(epoch))
    return [items[position] for position in range(len(items))]


@each_order
@few
@given(n=sizes, size=world_sizes, tail=tails, seed=seeds, epoch=epochs)
def test_batch_in_each_step_the_ranks_together_visit_consecutive_positions(
    make: Make, n: int, size: int, tail: Tail, seed: int, epoch: int
) -> None:
    order = make(n, seed)
    ranks = ranks_of(n, size, tail=tail, order=order, start_epoch=epoch)

    places = sorted(place for sampler in ranks for place in sampler.share().places)
    assert list(range(len(places))) == places
    visited = in_order_of_visits([list(sampler) for sampler in ranks])
    expected = places_of(order, epoch) * (size + 1)
    assert expected[: len(visited)] == visited


@each_order
@few
@given(n=sizes, history=histories, last=world_sizes, tail=tails, seed=seeds, epoch=epochs)
def test_exactly_once_every_position_whatever_the_history_of_resizes(
    make: Make,
    n: int,
    history: list[tuple[int, int]],
    last: int,
    tail: Tail,
    seed: int,
    epoch: int,
) -> None:
    order = make(n, seed)
    expected = places_of(order, epoch)
    length = len(expected)
    # The order that the samplers get is another object: nothing must depend on what it was asked.
    options: dict[str, Any] = {"order": make(n, seed), "tail": tail, "start_epoch": epoch}
    visited, lists, state = walk(length, history, last, **options)

    head, rest = visited[:length], visited[length:]
    assert expected[: len(head)] == head
    assert (expected * (len(lists) + 1))[: len(rest)] == rest
    assert len(rest) < len(lists)
    assert not rest or tail in ("wrap", "fill")
    assert len(head) == length or (tail == "drop" and length - len(head) < len(lists))
    assert (length, epoch) == (state["position"], state["epoch"])


@each_order
@few
@given(n=sizes, size=world_sizes, tail=tails, seed=seeds, epoch=epochs)
def test_agreement_all_ranks_take_the_same_number_of_steps_and_len_says_it(
    make: Make, n: int, size: int, tail: Tail, seed: int, epoch: int
) -> None:
    ranks = ranks_of(n, size, tail=tail, order=make(n, seed), start_epoch=epoch)

    promised = [len(sampler) for sampler in ranks]
    counts = [len(list(sampler)) for sampler in ranks]
    assert promised == counts
    assert max(counts) - min(counts) <= (tail == "uneven")


@each_order
@few
@given(n=sizes, size=world_sizes, seed=seeds, epoch=epochs, data=st.data())
def test_resume_in_a_fresh_process_continues_the_same_epoch_and_the_next(
    make: Make, n: int, size: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    order = make(n, seed)
    expected = places_of(order, epoch)
    start = data.draw(st.integers(0, max(len(expected) - 1, 0)))
    (before,) = ranks_of(n, 1, order=order, start_epoch=epoch)
    if start:
        before.advance(start)

    ranks = ranks_of(n, size, order=make(n, seed), tail="uneven")
    for sampler in ranks:
        sampler.load_state_dict(before.state_dict())
    assert expected[start:] == in_order_of_visits([list(sampler) for sampler in ranks])
    if expected:  # an epoch of nothing is never finished
        following = [[list(sampler) for _ in sampler.epochs(epoch + 2)] for sampler in ranks]
        found = in_order_of_visits([lists[0] for lists in following])
        assert places_of(make(n, seed), epoch + 1) == found


@each_order
@few
@given(n=sizes, size=world_sizes, tail=tails, seed=seeds, data=st.data())
def test_purity_reading_changes_nothing(
    make: Make, n: int, size: int, tail: Tail, seed: int, data: st.DataObject
) -> None:
    order = make(n, seed)
    read, untouched = (ranks_of(n, size, tail=tail, order=order)[0] for _ in range(2))
    before = read.state_dict()
    looks: list[Callable[[], object]] = [
        lambda: len(read),
        lambda: repr(read),
        lambda: iter(read),
        lambda: list(read.share()),
        lambda: iter(read).state_dict(),
        lambda: read.fingerprint(),
        lambda: (order(0), order(3), name_of(order, 1)),
        lambda: find(cast("Sequence[int]", order(2)), 1),
    ]
    for look in data.draw(st.lists(st.sampled_from(looks), max_size=8)):
        look()

    assert before == read.state_dict() == untouched.state_dict()
    assert list(untouched) == list(read)


@each_order
@few
@given(n=sizes, seed=seeds, epoch=epochs, data=st.data())
def test_an_order_reads_the_same_by_items_and_by_slices_and_after_pickling(
    make: Make, n: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    order: Any = make(n, seed)
    items, expected = order(epoch), places_of(order, epoch)
    length = len(expected)
    start, stop = data.draw(st.tuples(st.integers(0, length), st.integers(0, length)))
    step = data.draw(st.integers(1, 7))

    assert expected[start:stop:step] == list(items[start:stop:step])
    assert expected[start:stop:step][::-1] == list(items[start:stop:step])[::-1]
    if isinstance(items, LazyOrder):
        assert expected[::-step] == list(items[::-step])
    assert expected == places_of(pickle.loads(pickle.dumps(order)), epoch)
    places = [place for item in expected for place in (item if isinstance(item, list) else [item])]
    assert {int} >= {type(index) for index in places}
    with pytest.raises(IndexError):
        items[length]


@each_order
@few
@given(n=sizes, seed=seeds, epoch=epochs)
def test_where_a_sample_is_can_be_found_in_every_order(
    make: Make, n: int, seed: int, epoch: int
) -> None:
    items = cast("Any", make(n, seed)(epoch))
    expected = list(items)

    for sample in [-1, *range(n + 2), 10**9]:
        found = [place for place, item in enumerate(expected) if has(item, sample)]
        assert found == find(items, sample)
        if isinstance(items, FullOrder):
            assert found == ([items.index(sample)] if sample in items else [])


@each_order
def test_a_long_stretch_as_an_array_is_the_list(make: Make) -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    items = cast("Any", make(5000, 7)(3))
    if len(items) and isinstance(items[0], list):
        return  # batches are no array
    share = Share(items, range(1, 3 * len(items), 2))

    assert list(share) == share.numpy().tolist()
    assert [items[place % len(items)] for place in share.places] == list(share)


@each_order
def test_an_order_has_a_name_that_changes_with_its_parameters_and_not_by_itself(make: Make) -> None:
    names = {name_of(make(n, seed), 3) for n in (20, 21) for seed in (0, 1)}

    assert names == {name_of(make(n, seed), 3) for n in (20, 21) for seed in (0, 1)}
    assert all(len(name) < 200 for name in names)
    orders = {str(places_of(make(20, seed), 3)) for seed in (0, 1)}
    assert len(orders) <= len({name_of(make(20, seed), 3) for seed in (0, 1)})


@each_order
def test_the_laws_hold_through_resizes_counted_place_by_place(make: Make) -> None:
    for tail in ("wrap", "drop", "uneven"):
        report = simulate(0, [(4, 3), (3, 4), 5], order=make(50, 1), tail=tail)

        assert () == report.violations
