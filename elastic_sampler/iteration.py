"""One rank's way through (the rest of) one epoch: what was planned, how far it is.

A `Plan` is a value: everything an iteration needs, fixed when it is made. An `Iteration` is an
iterator over the plan's share that knows how much of it was issued and, when somebody tells it,
how much was trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .batches import Batches, Batching
from .share import Share, Tail, positions
from .state import State
from .world import World

if TYPE_CHECKING:
    from .sampler import ElasticDistributedSampler

Item = TypeVar("Item")
"""What is iterated over: an index, or a batch of them."""


@dataclass(frozen=True)
class Plan:
    """The rest of one epoch, as one rank walks it.

    Attributes:
        epoch: The epoch.
        order: Its order, rotated.
        start: The position it begins at, of the whole job.
        origin: The rotation in force.
        world: This rank and the world size.
        seat: The rank after `start_rank` turned the ranks.
        tail: What happens at the end.
        batching: Sizes of batches, None where indices are taken one by one.
        kind: What a state says of the order.
    """

    epoch: int
    order: Sequence[int]
    start: int
    origin: int
    world: World
    seat: int
    tail: Tail
    batching: Batching | None = None
    kind: str | None = None

    @property
    def num_samples(self) -> int:
        """Length of the order."""
        return len(self.order)

    @cached_property
    def items(self) -> Any:
        """What the rank takes of what is left: a `Share` of indices, or `Batches`."""
        size = self.world.size
        if self.batching is not None:
            return Batches(self.order, self.start, size, self.seat, self.tail, self.batching)
        places = positions(self.start, self.num_samples, size, self.seat, self.tail)
        return Share(self.order, places)

    def position_after(self, count: int) -> int:
        """The position of the job when each rank, in lock-step, has taken `count` items."""
        if self.batching is not None:
            position: int = self.items.position_after(count)
            return position
        return min(self.start + count * self.world.size, self.num_samples)


class Iteration(chain[Item]):
    """Iterates over a plan's items, as cheap as a list's iterator, and knows how far it is.

    The exact count needs no counter in the loop: it is what the chunks held, less what is left of
    the chunk in hand.

    Attributes:
        sampler: Whose iteration this is.
        plan: What is iterated over. It may be replaced until the first `next`.
        trained: How many items of this rank were trained, if anybody says so (`track`,
            `advance`), else None.
        ended: Whether training came to the end: a tracked loader's, or, counted by hand, the
            iterator's own.
        generation: Of the sampler: an older one no longer counts.
        again: Whether the same epoch was finished just before, and no epoch was set since.
        adopted: Whether the plan came from `load_state_dict` on this iterator.
    """

    sampler: ElasticDistributedSampler
    trained: int | None
    ended: bool
    generation: int
    again: bool
    adopted: bool
    _chunks: _Chunks

    @classmethod
    def over(
        cls, sampler: ElasticDistributedSampler, plan: Plan, generation: int
    ) -> Iteration[Item]:
        """An iteration that has not begun."""
        chunks = _Chunks(plan)
        iteration = cast("Iteration[Item]", cls.from_iterable(chunks))  # a cls, but for typeshed
        chunks.iteration = iteration
        iteration._chunks = chunks
        iteration.sampler = sampler
        iteration.generation, iteration.trained = generation, None
        iteration.ended = iteration.again = iteration.adopted = False
        return iteration

    @property
    def plan(self) -> Plan:
        """What is iterated over."""
        return self._chunks.plan

    @property
    def issued(self) -> int:
        """How many items were drawn from this iterator."""
        return self._chunks.issued - length_hint(self._chunks.chunk)

    @property
    def finished(self) -> bool:
        """Whether this iteration has finished its epoch: by what was trained, if that is known."""
        if self.trained is None:
            return self._all_issued
        # With "drop" all ranks train their last index in the same step; with "uneven" they do not,
        # and a rank that has had its last one cannot speak for the others.
        dropped = self.plan.tail == "drop" and self.trained == len(self.plan.items)
        return self._over(self.trained, self.ended or dropped)

    @property
    def _all_issued(self) -> bool:
        """Whether the epoch is finished when what was issued is trained."""
        return self._over(self.issued, self._chunks.exhausted)

    def _over(self, done: int, ended: bool) -> bool:
        plan = self.plan
        if not plan.num_samples:
            return False
        return ended or (done > 0 and plan.position_after(done) == plan.num_samples)

    def __length_hint__(self) -> int:
        return len(self.plan.items) - self.issued

    def state(self) -> State:
        """Where the job is: by what was trained if that is known, else by what was issued."""
        done = self.issued if self.trained is None else self.trained
        return self._state_after(done, self.finished)

    def _state_after(self, done: int, finished: bool) -> State:
        plan = self.plan
        position = plan.num_samples if finished else plan.position_after(done)
        return self.sampler._state(
            plan.epoch, position, plan.num_samples, plan.origin if position else None, plan.kind
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the job is when what this iterator has issued is trained, as torchdata asks.

        That is so in a tracked pass, too: a loader that prefetches asks when it has drawn a batch,
        and keeps the answer until it delivers that batch.
        """
        return self._state_after(self.issued, self._all_issued).to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Begin where a state says, if nothing was drawn yet; a finished state leaves nothing.

        Raises:
            StateError: As `ElasticDistributedSampler.load_state_dict` raises it.
            RuntimeError: An index was already drawn from this iterator.
        """
        if self._chunks.begun:
            raise RuntimeError(
                "load_state_dict must come before the first next() of an iterator: "
                "make another one with iter(sampler)"
            )
        self._chunks.replace(self.sampler._plan_of_state(state, self.plan.batching))
        self.adopted = True


class _Chunks(Iterator[Iterator[Any]]):
    """Feeds an `Iteration` with one chunk after another."""

    iteration: Iteration[Any]

    def __init__(self, plan: Plan) -> None:
        self.replace(plan)
        self.issued = 0
        self.chunk: Iterator[Any] = iter(())
        self.begun = self.exhausted = False

    def replace(self, plan: Plan) -> None:
        self.plan = plan
        self._lists = plan.items.chunks()

    def __next__(self) -> Iterator[Any]:
        if not self.begun:
            self.begun = True
            self.iteration.sampler._begin(self.iteration)
        try:
            found = next(self._lists)
        except StopIteration:
            self.exhausted = True
            iteration = self.iteration
            if iteration.trained in (None, len(self.plan.items)):  # a prefetcher is here too early
                iteration.ended = iteration.trained is not None
                iteration.sampler._passed(iteration)
            raise
        self.issued += len(found)
        self.chunk = iter(found)
        return self.chunk
