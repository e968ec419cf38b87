"""What tests run in spawned processes: a child can import this module, but not a test."""

from __future__ import annotations

import copy
import multiprocessing
from typing import Any

from elastic_sampler import Nearness, World, hookimpl, register, unregister


def rank_1_of_2() -> World:
    return World(1, 2, "a function")


def indices(sampler: Any) -> list[int]:
    return list(sampler)


def indices_of_a_deep_copy(sampler: Any) -> list[int]:
    return list(copy.deepcopy(sampler))


class Group:
    @hookimpl
    def elastic_sampler_world(self) -> World:
        return World(0, 2, "the child's group", Nearness.LIVE)


def indices_after_a_group_came_and_went(sampler: Any) -> list[int]:
    register(Group(), "group")
    assert [0, 2, 4, 6] == list(sampler)
    unregister("group")
    return list(sampler)


def indices_in_a_grandchild(sampler: Any) -> Any:
    return in_a_child(indices, sampler)


def in_a_child(function: Any, sampler: Any) -> Any:
    """What a function says in a child that multiprocessing spawns."""
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    child = context.Process(target=put, args=(queue, function, sampler))
    child.start()
    try:
        return queue.get(timeout=60)
    finally:
        child.join(60)
        child.kill()
        child.join()


def put(queue: Any, function: Any, sampler: Any) -> None:
    try:
        queue.put(function(sampler))
    except Exception as error:
        queue.put(f"{type(error).__name__}: {error}")


def squares(indices: Any) -> list[int]:
    """What a process of a pool makes of its part, or of a batch."""
    return [index * index for index in indices]
