"""A sampler asks anew each time, never falls back silently, and travels only where it may."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from spawned import (
    in_a_child,
    indices,
    indices_after_a_group_came_and_went,
    indices_in_a_grandchild,
    indices_of_a_deep_copy,
    rank_1_of_2,
)

from elastic_sampler import (
    ElasticDistributedSampler,
    Nearness,
    World,
    WorldChangedWarning,
    WorldLostError,
    hookimpl,
    register,
    unregister,
)


@dataclass
class Group:
    """A process group that comes and goes."""

    world: World | None = None
    asked: int = field(default=0)

    @hookimpl
    def elastic_sampler_world(self) -> World | None:
        self.asked += 1
        return self.world


@pytest.fixture
def group() -> Iterator[Group]:
    found = Group()
    register(found, "group")
    yield found
    unregister("group")


def live(rank: int, size: int) -> World:
    return World(rank, size, "a group", Nearness.LIVE)


def test_a_sampler_built_before_the_group_deals_rightly_after(group: Group) -> None:
    sampler = ElasticDistributedSampler(8)
    group.world = live(2, 4)

    assert [2, 6] == list(sampler)
    assert live(2, 4) == sampler.world


def test_the_world_is_asked_anew_at_each_iteration_and_a_running_one_keeps_its_own(
    group: Group,
) -> None:
    group.world = live(1, 4)
    sampler = ElasticDistributedSampler(12)
    iterator = iter(sampler)
    assert [1, 5] == [next(iterator), next(iterator)]

    group.world = None
    with pytest.raises(WorldLostError, match=r"rank 1 of 4 before \(a group\), and now nobody"):
        iter(sampler)
    with pytest.raises(WorldLostError):
        len(sampler)
    group.world = live(0, 3)
    sampler.load_state_dict(iterator.state_dict())
    assert [8, 11] == list(sampler)
    assert [9] == list(iterator)


def test_a_named_provider_that_falls_silent_is_lost_too(group: Group) -> None:
    group.world = live(1, 4)
    sampler = ElasticDistributedSampler(12, world="group")
    assert 3 == len(sampler)

    group.world = None
    with pytest.raises(WorldLostError):
        iter(sampler)


def test_a_length_told_by_a_lone_process_and_then_several_ranks_warn_once(group: Group) -> None:
    sampler = ElasticDistributedSampler(12)
    assert 12 == len(sampler)
    assert 12 == len(list(sampler))
    group.world = live(1, 4)
    with pytest.warns(WorldChangedWarning, match=r"len\(\) was 12 .* has 3 on each of 4 ranks"):
        iter(sampler)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iter(sampler)
        fresh = ElasticDistributedSampler(12)
        len(fresh)
        iter(fresh)


def test_a_callable_is_asked_each_time_and_must_return_a_world() -> None:
    sampler = ElasticDistributedSampler(4, world=lambda: (0, 2))  # type: ignore[arg-type, return-value]

    with pytest.raises(TypeError, match=r"must return a World, got \(0, 2\)"):
        iter(sampler)


# Pickles.


def there(pickled: bytes, question: str) -> str:
    """What an unpickled sampler answers in a process that multiprocessing did not start."""
    code = (
        "import pickle, sys\n"
        f"sys.path[:0] = {sys.path!r}\n"
        "sampler = pickle.loads(sys.stdin.buffer.read())\n"
        f"print({question})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], input=pickled, capture_output=True, timeout=60
    )
    return (ran.stdout or ran.stderr).decode().strip().splitlines()[-1]


def test_in_a_spawned_child_the_providers_answer_from_before_is_used(group: Group) -> None:
    group.world = live(1, 4)
    asked = ElasticDistributedSampler(8)
    len(asked)
    before = group.asked
    pickle.dumps(asked)
    assert before == group.asked  # nothing is asked at pickling

    assert [1, 5] == in_a_child(indices, asked)
    assert [1, 5] == in_a_child(indices_in_a_grandchild, asked)
    assert [1, 5] == in_a_child(indices_of_a_deep_copy, asked)


def test_anywhere_else_the_answer_from_before_is_lost(group: Group) -> None:
    group.world = live(1, 4)
    sampler = ElasticDistributedSampler(8)
    len(sampler)

    assert there(pickle.dumps(sampler), "list(sampler)").startswith(
        "elastic_sampler.errors.WorldLostError: a provider answered rank 1 of 4 before"
    )
    group.world = None
    with pytest.raises(WorldLostError):
        iter(copy.deepcopy(sampler))


def test_an_answer_that_is_lost_is_not_passed_on_to_a_child_either(group: Group) -> None:
    group.world = live(1, 4)
    sampler = ElasticDistributedSampler(8)
    len(sampler)

    # The stray process is the parent of its child, but not the one that was answered.
    said = there(pickle.dumps(sampler), "__import__('spawned').in_a_child(list, sampler)")
    assert said.startswith("WorldLostError: a provider answered rank 1 of 4 before")


def test_an_answer_that_a_child_got_itself_and_lost_is_lost(group: Group) -> None:
    group.world = live(1, 4)
    sampler = ElasticDistributedSampler(8)
    len(sampler)

    said = in_a_child(indices_after_a_group_came_and_went, sampler)
    assert str(said).startswith("WorldLostError: a provider answered rank 0 of 2 before (the child")


def test_a_deep_copy_in_the_same_process_asks_whom_the_original_asks() -> None:
    now = World(1, 4)
    sampler = ElasticDistributedSampler(8, world=lambda: now)
    never_asked = copy.deepcopy(sampler)
    len(sampler)
    asked = copy.deepcopy(sampler)

    now = World(0, 2)
    for copied in (never_asked, asked):
        assert [0, 2, 4, 6] == list(copied)


def test_where_it_lands_it_asks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = ElasticDistributedSampler(8)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    len(sampler)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")

    assert "[0, 4]" == there(pickle.dumps(sampler), "list(sampler)")


def test_a_fixed_world_travels_everywhere_and_a_function_by_its_name() -> None:
    fixed = ElasticDistributedSampler(8, world=World(1, 4))
    assert "[1, 5]" == there(pickle.dumps(fixed), "list(sampler)")

    asked = ElasticDistributedSampler(8, world=rank_1_of_2)
    assert [1, 3, 5, 7] == in_a_child(indices, asked)


def test_a_lambda_is_replaced_by_its_last_answer_or_pickling_fails_naming_it() -> None:
    sampler = ElasticDistributedSampler(8, world=lambda: World(1, 4))
    with pytest.raises(pickle.PicklingError, match=r"world=<function .* it was never asked"):
        pickle.dumps(sampler)

    len(sampler)
    assert "[1, 5]" == there(pickle.dumps(sampler), "list(sampler)")
