"""`ElasticDistributedSampler` joins world, order, share and state: the only mutable object."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeVar, cast

from .batches import Batching
from .checks import integer, num_samples
from .errors import (
    IssuedNotTrainedWarning,
    RepeatedEpochWarning,
    ResumeWarning,
    StateError,
    UnsplitShareWarning,
    WorldChangedWarning,
)
from .iteration import Iteration, Plan
from .location import Location, locations
from .order import EpochOrder, name_of
from .orders import Rotation, Sequential, Shuffled
from .permutation import VERSION as SHUFFLED
from .share import TAILS, Share, Tail
from .split import loader_workers
from .state import State
from .tracking import Pass, Tracked
from .whereabouts import Whereabouts, WorldLike
from .world import World

Batch = TypeVar("Batch")


@dataclass(frozen=True)
class _ResumePoint:
    """Where the next iteration begins.

    Attributes:
        epoch: The epoch.
        position: Where in it.
        origin: The rotation in force, None at position 0.
        num_samples: The length that a loaded state was saved with, None without one.
        order: The name of the order that it was saved with, None without one.
        finished: A finished state that was loaded: reported until another epoch is begun or set.
    """

    epoch: int
    position: int = 0
    origin: int | None = None
    num_samples: int | None = None
    order: str | None = None
    finished: State | None = None

    @property
    def spent(self) -> bool:
        """Whether the epoch is the one that a loaded state had finished."""
        return self.finished is not None and self.finished.epoch == self.epoch


class ElasticDistributedSampler:
    """Deals an epoch to ranks that come and go: each sample exactly once, whatever their number.

    A drop-in for `torch.utils.data.DistributedSampler` that is asked for its rank and world size
    when an iteration begins, and resumes in the middle of an epoch at any other world size.

    For every history of resizes inside an epoch the visited positions are 0, 1, …, n-1, each once,
    followed only by the wrap-around tail (`"wrap"`, `"fill"`), or stopping short of n by less than
    W of them (`"drop"`), or followed by nothing (`"uneven"`). In each step the ranks together visit
    consecutive positions. All ranks take the same number of steps; only with `"uneven"` may a rank
    take one less. Reading (`len`, `state_dict`, `repr`, making an iterator and throwing it away)
    changes nothing.

    Args:
        dataset: Anything with `len()`, or the number of samples. The length is read when an
            iteration begins and at each `len()`, so it may change between epochs.
        start_rank: Turns the ranks: rank r takes the seat `(r + start_rank) mod W`.
        start_epoch: The epoch to begin with, at least 0.
        shuffle: Whether each epoch is a permutation of its own. Off by default, like DataLoader's.
        seed: Any integer, the same on all ranks.
        tail: What happens when the rest of an epoch does not divide by the world size: `"wrap"`
            repeats samples from the head of the epoch's order, `"drop"` leaves the rest out,
            `"uneven"` gives some ranks one less. `"fill"` is `"wrap"` when indices are taken one
            by one.
        order: A callable from epoch to a sequence of sample indices; overrides `shuffle` and
            `seed`. Called once per epoch, and the same on all ranks.
        world: Where rank and world size come from: None detects them, a `World` is fixed, a string
            names a provider, a callable is asked each time.

    Raises:
        TypeError: An argument has the wrong type; it is named.
        ValueError: An argument is out of range; it is named.

    Examples:
        >>> worlds = [World(rank, 4) for rank in range(4)]
        >>> ranks = [ElasticDistributedSampler(10, shuffle=False, world=w) for w in worlds]
        >>> [list(sampler) for sampler in ranks]
        [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]
    """

    def __init__(
        self,
        dataset: Sized | SupportsIndex,
        *,
        start_rank: int = 0,
        start_epoch: int = 0,
        shuffle: bool = False,
        seed: int = 0,
        tail: Tail = "wrap",
        order: EpochOrder | None = None,
        world: WorldLike = None,
    ) -> None:
        if not isinstance(dataset, Sized):
            try:
                dataset = num_samples("dataset", dataset)
            except TypeError:
                raise TypeError(
                    f"dataset must have a len(), or be a number of samples, got {dataset!r}"
                ) from None
        if not isinstance(shuffle, bool):
            raise TypeError(f"shuffle must be True or False, got {shuffle!r}")
        if tail not in TAILS:
            raise ValueError(f"tail must be one of {', '.join(map(repr, TAILS))}, got {tail!r}")
        if order is not None and not callable(order):
            raise TypeError(
                f"order must be a callable from epoch to a sequence of indices, got {order!r}: "
                f"wrap a fixed sequence as `lambda epoch: sequence`"
            )
        self._dataset = dataset
        self._start_rank = integer("start_rank", start_rank)
        self._shuffle, self._tail, self._custom = shuffle, tail, order
        self._seed = integer("seed", seed)
        self._whereabouts = Whereabouts(world)
        self._resume = _ResumePoint(integer("start_epoch", start_epoch, 0))
        self._known_order: tuple[int, str, Sequence[int]] | None = None
        self._latest: Iteration[Any] | None = None
        self._planned: Plan | None = None  # what share() gave out, and nothing was begun since
        self._lone_len: int | None = None  # what len() said when nobody knew a rank
        self._tracked: Pass | None = None
        self._generation = 0
        self._continues: State | None = None  # loaded, until an epoch is set and begun
        self._epoch_was_set = False
        self._finished_before = False  # this epoch, and no epoch was set since
        self._warned: set[type[Warning]] = set()

    # What is there to read.

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration begins in."""
        return self._resume.epoch

    @property
    def seed(self) -> int:
        """The seed."""
        return self._seed

    @property
    def tail(self) -> Tail:
        """What happens at the end of an epoch."""
        return self._tail

    @property
    def num_samples(self) -> int:
        """Length of the epoch's order, read anew."""
        return len(self._order(self._resume.epoch))

    @property
    def position(self) -> int:
        """How many places of the epoch all ranks together have consumed, as `state_dict` says."""
        return self._whole_state().position

    @property
    def world(self) -> World:
        """This process's rank and world size, asked anew.

        Raises:
            WorldError, ProviderError: As `World.detect` raises them, or `WorldLostError`.
        """
        return self._whereabouts.ask()

    def __len__(self) -> int:
        """How many indices the next iteration yields on this rank."""
        return self._length()

    def share(self) -> Share:
        """This rank's part of what is left from the resume point: lazy, and a value."""
        share: Share = self._shared()
        return share

    def locate(self, sample: int, epoch: int | None = None) -> list[Location]:
        """Where a sample is dealt: its places in an epoch, and to which rank in which step.

        Steps and ranks are those of the pass from the resume point on, with the world of this
        moment; of later epochs, if the world stays as it is. What was dealt before, at world sizes
        that the state does not know, has a position only: where it *was* trained, a `SampleLog`
        tells. Costs O(1) where the order can be inverted, else O(n).

        Args:
            sample: A sample index.
            epoch: Which epoch, by default the one that the next iteration begins in.

        Examples:
            >>> sampler = ElasticDistributedSampler(10, shuffle=False, world=World(0, 4))
            >>> [(at.position, at.step, at.rank) for at in sampler.locate(1)]  # the tail repeats it
            [(1, 0, 1), (11, 2, 3)]
        """
        return self._located(sample, epoch)

    def __iter__(self) -> Iteration[int]:
        """Iterate from the resume point, with the world of this moment.

        Making an iterator changes nothing; two at once do not disturb each other; completing one
        puts the resume point back to the start of the epoch.
        """
        return self._iterate()

    def __repr__(self) -> str:
        kind = self._kind(self.epoch)
        return (
            f"{type(self).__name__}(epoch={self.epoch}, order={kind!r}, seed={self._seed}, "
            f"tail={self._tail!r}, world={self._whereabouts.given!r})"
        )

    # Epochs.

    def set_epoch(self, epoch: int) -> None:
        """Go to the start of another epoch; the same epoch keeps a loaded position.

        A running iterator keeps its own epoch to the end. An epoch that a loaded state had finished
        has nothing left, once.

        Raises:
            TypeError: `epoch` is not an integer.
            ValueError: `epoch` is negative.
        """
        epoch = integer("epoch", epoch, 0)
        used = self._latest is not None and self._latest.finished
        loaded = None if used else self._continues
        kept = loaded is not None and not loaded.finished and epoch == loaded.epoch
        self._continues = loaded if kept else None
        finished = self._resume.finished
        if epoch != self._resume.epoch:
            spent = finished is not None and finished.epoch == epoch
            self._go_to(_ResumePoint(epoch, finished=finished if spent else None))
        elif finished is not None and not self._resume.spent:
            self._resume = _ResumePoint(epoch)
        self._epoch_was_set, self._finished_before = True, False
        if loaded is not None:
            self._warn_if_it_does_not_continue(loaded, epoch)

    def _warn_if_it_does_not_continue(self, loaded: State, epoch: int) -> None:
        following = loaded.epoch + loaded.finished
        if loaded.finished and epoch == loaded.epoch:
            warnings.warn(
                f"set_epoch({epoch}): the loaded state had finished epoch {epoch}, so nothing is "
                f"left of it and its next iteration is empty; go on with set_epoch({following}), "
                f"or loop over sampler.epochs(stop)",
                ResumeWarning,
                stacklevel=3,
            )
        elif epoch not in (loaded.epoch, following):
            warnings.warn(
                f"set_epoch({epoch}) after loading a state of epoch {loaded.epoch}: its position "
                f"{loaded.position} is given up and epoch {epoch} starts at its beginning; to go "
                f"on where the state was saved, set epoch {following}, or loop over "
                f"sampler.epochs(stop)",
                ResumeWarning,
                stacklevel=3,
            )

    def epochs(self, stop: int) -> Iterator[int]:
        """Yield the epochs up to `stop` (exclusive), each set, from where the state left off.

        Examples:
            >>> sampler = ElasticDistributedSampler(4, shuffle=False, world=World(0, 1))
            >>> [(epoch, list(sampler)) for epoch in sampler.epochs(2)]
            [(0, [0, 1, 2, 3]), (1, [1, 2, 3, 0])]
        """
        stop = integer("stop", stop)
        done = self._resume.spent or (self._latest is not None and self._latest.finished)
        for epoch in range(self._resume.epoch + done, stop):
            self.set_epoch(epoch)
            yield epoch
            self._settle()

    # States.

    def state_dict(self) -> dict[str, Any]:
        """Where the whole job is: a dict of JSON values, the same on every rank.

        In the middle of an iteration it says what was trained, if `track` or `advance` told; else
        what was issued, which is ahead of training when a loader prefetches, and warns once.
        """
        latest = self._latest
        untold = latest is not None and latest.trained is None and not latest.finished
        if untold and latest is not None and latest.issued:
            self._warn_once(
                IssuedNotTrainedWarning,
                "state_dict() in the middle of an iteration counts what was issued, and a loader "
                "that prefetches is ahead of the training loop: iterate over "
                "sampler.track(loader), or call sampler.advance() after each step",
            )
        return self._whole_state().to_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a state says, at whatever world size; costs O(1), at any position.

        A finished state (position >= its own `num_samples`) moves on to the next epoch. The number
        of samples, the order and (where the order uses it) the seed must agree only while the
        epoch is under way.

        Raises:
            StateError: The state is malformed or does not fit this sampler. It names the field,
                shows both values, and nothing was changed.
        """
        loaded = State.from_dict(state)
        resume = self._resume_of(loaded)
        self._go_to(resume)
        self._continues = loaded

    def fingerprint(self) -> str:
        """A digest of what all ranks must agree on, 16 hexadecimal digits, to log or to compare.

        It covers epoch, position, number of samples, seed, order, tail and world size.
        """
        agreed = (*self._whole_state().to_dict().items(), self._tail, self.world.size)
        return hashlib.sha256(repr(agreed).encode()).hexdigest()[:16]

    # Issued is not trained.

    def track(
        self, loader: Iterable[Batch], *, batch_size: int | None = None, progress: bool = False
    ) -> Tracked[Batch]:
        """Iterate over a loader, and count what the loop really received.

        `state_dict()` then reports that. A batch counts as soon as it is handed to the loop.

        Args:
            loader: Whatever delivers this sampler's indices in batches, prefetching or not; or what
                `share()` gave out since the last pass, read by the loader itself.
            batch_size: How many indices of this rank a batch has, the last one apart. By default
                `loader.batch_size`; a loader whose `batch_size` is None delivers one at a time.
            progress: Whether to show a bar of the batches that are left, with tqdm.

        Returns:
            A re-iterable with the loader's `len`. Iterating over it raises `LoaderMismatchError`
            when the loader does not deliver this sampler's share.

        Raises:
            TypeError: There is no way to know the batch size.
            ImportError: `progress` needs tqdm, the extra "progress".
        """
        return Tracked(self, loader, batch_size, progress=progress)

    def advance(self, count: int = 1) -> None:
        """Say that `count` more indices of this rank were trained, the manual form of `track`.

        It counts in the most recent iteration; without one, from the resume point, with the world
        that `share()` used. A count past the end of the share ends there (a short last batch).

        Raises:
            ValueError: `count` is less than 1, the share was already trained to its end, or more
                would be trained than was issued.
        """
        self._advance(count)

    # The same for indices and for batches of them.

    def _length(self, batching: Batching | None = None, *, whole: bool = False) -> int:
        start = _ResumePoint(self._resume.epoch) if whole else self._start()
        length = len(self._plan(start, batching).items)
        if self._whereabouts.nobody:
            self._lone_len = length
        return length

    def _shared(self, batching: Batching | None = None) -> Any:
        self._settle()
        self._planned = self._plan(self._start(), batching)
        return self._planned.items

    def _located(
        self, sample: int, epoch: int | None, batching: Batching | None = None
    ) -> list[Location]:
        sample, start = integer("sample", sample), self._start()
        epoch = start.epoch if epoch is None else integer("epoch", epoch, 0)
        if epoch == start.epoch:
            return locations(self._plan(start, batching), sample)
        kept = self._known_order  # looking at another epoch does not put away the order of this one
        try:
            plan = self._plan(_ResumePoint(epoch), batching)
        finally:
            self._known_order = kept
        return locations(plan, sample, known=epoch > start.epoch)

    def _iterate(self, batching: Batching | None = None) -> Iteration[Any]:
        plan = self._plan(self._start(), batching)
        if self._lone_len is not None and plan.world.size > 1:
            self._warn_once(
                WorldChangedWarning,
                f"len() was {self._lone_len} when no provider knew of other ranks, and the "
                f"iteration has {len(plan.items)} on each of {plan.world.size} ranks "
                f"({plan.world.source}): what was computed from that len() (a schedule?) is wrong; "
                f"ask for it after the process group was made",
                depth=2,
            )
        if (workers := loader_workers()) > 1:
            self._warn_once(
                UnsplitShareWarning,
                f"the sampler is iterated in one of the {workers} workers of a loader, and each of "
                f"them gets this rank's whole share: every sample comes {workers} times. Iterate "
                f"over share.split(worker.id, worker.num_workers, batch_size=...) of "
                f"sampler.share(), worker being torch.utils.data.get_worker_info()",
                depth=2,
            )
        return Iteration.over(self, plan, self._generation)

    def _advance(self, count: int, batching: Batching | None = None) -> None:
        count = integer("count", count, 1)
        latest = self._latest
        counted = latest is not None and latest.trained is not None
        if latest is None or (counted and latest.finished and self._planned):
            plan = self._planned or self._plan(self._start(), batching)
            latest = Iteration.over(self, plan, self._generation)
        if latest.plan.batching != batching:
            raise ValueError(
                "advance() counts in the most recent iteration: call it on what is iterated over "
                f"(the {'sampler' if latest.plan.batching is None else 'batch sampler'})"
            )
        have, total = latest.trained or 0, len(latest.plan.items)
        what = "indices" if latest.plan.batching is None else "batches"
        if have == total:
            raise ValueError(f"advance({count}): all {total} {what} of this rank were trained")
        trained = min(have + count, total)
        if 0 < latest.issued < trained:
            raise ValueError(
                f"advance({count}) would count {trained} {what} of this rank as trained, "
                f"but only {latest.issued} were issued"
            )
        if latest is not self._latest:
            self._begin(latest)
        self._settle()
        latest.trained, self._planned = trained, None

    # What the iterations and tracked passes tell.

    def _begin(self, iteration: Iteration[Any]) -> None:
        """An iteration takes its first index: it is the most recent one now."""
        if iteration.generation != self._generation:
            return
        plan = iteration.plan
        if iteration.adopted and plan.num_samples and not plan.items:
            # It loaded an epoch of which nothing is left: the next one follows, as after a load.
            state = self._state(plan.epoch, plan.num_samples, plan.num_samples, plan.origin)
            self._go_to(self._resume_of(state))
        else:
            self._make_latest(iteration)
        if self._tracked is not None:
            iteration.trained = 0
            self._tracked.iteration = iteration

    def _make_latest(self, iteration: Iteration[Any]) -> None:
        plan = iteration.plan
        finished = self._latest is not None and self._latest.finished
        self._finished_before |= finished and not self._epoch_was_set
        iteration.again = self._finished_before
        if iteration.adopted:
            origin = plan.origin if plan.start else None
            order = plan.kind if plan.start else None
            self._resume = _ResumePoint(plan.epoch, plan.start, origin, plan.num_samples, order)
        elif finished or not self._resume.spent:
            self._resume = replace(self._start(), finished=None)
        self._settle()
        self._latest, self._planned, self._epoch_was_set = iteration, None, False

    def _settle(self) -> None:
        """The epoch that was set is begun: going to another one gives up nothing any more."""
        if self._epoch_was_set:
            self._continues = None

    def _begin_shared(self) -> Iteration[Any] | None:
        """Begin an iteration over what share() gave out, for a loader that reads it by itself."""
        if self._planned is None:
            return None
        iteration: Iteration[Any] = Iteration.over(self, self._planned, self._generation)
        self._begin(iteration)
        return iteration

    def _passed(self, iteration: Iteration[Any]) -> None:
        """An iteration came to its end: was it the same shuffled epoch as before?"""
        shuffled = self._shuffle and self._custom is None
        if iteration is self._latest and iteration.again and iteration.finished and shuffled:
            self._warn_once(
                RepeatedEpochWarning,
                f"epoch {iteration.plan.epoch} was iterated to its end twice, in the same shuffled "
                f"order: call sampler.set_epoch(epoch) before each epoch, or loop over "
                f"sampler.epochs(stop)",
                depth=2,
            )

    @contextmanager
    def _tracking(self, tracked: Pass) -> Iterator[Callable[[], Iteration[Any] | None]]:
        """Whatever iteration begins, or goes on, before the first batch feeds this pass."""
        latest = self._latest
        issued = 0 if latest is None else latest.issued

        def advanced() -> Iteration[Any] | None:
            if latest is None or latest is not self._latest or latest.issued == issued:
                return None
            return latest

        self._tracked = tracked
        try:
            yield advanced
        finally:
            self._tracking_done(tracked)

    def _tracking_done(self, tracked: Pass) -> None:
        if self._tracked is tracked:
            self._tracked = None

    # How the above is found.

    def _start(self) -> _ResumePoint:
        """The resume point: a completed iteration puts it back to the start of the epoch."""
        if self._latest is not None and self._latest.finished:
            return _ResumePoint(self._resume.epoch)
        return self._resume

    def _go_to(self, resume: _ResumePoint) -> None:
        """Move the resume point, and let go of the iterations before."""
        self._resume, self._latest, self._planned = resume, None, None
        self._generation += 1
        self._epoch_was_set = self._finished_before = False

    def _order(self, epoch: int) -> Sequence[int]:
        """The order of an epoch, kept until the epoch, the length or the name changes."""
        known, name = self._known_order, self._kind(epoch)
        if self._custom is not None:
            if known is None or known[:2] != (epoch, name):
                known = (epoch, name, cast("Sequence[int]", self._custom(epoch)))
        else:
            length = self._dataset if isinstance(self._dataset, int) else len(self._dataset)
            if known is None or known[0] != epoch or len(known[2]) != length:
                kind = Shuffled(length, self._seed) if self._shuffle else Sequential(length)
                known = (epoch, name, kind(epoch))
        self._known_order = known
        return known[2]

    def _plan(self, resume: _ResumePoint, batching: Batching | None = None) -> Plan:
        order, kind = self._order(resume.epoch), self._kind(resume.epoch)
        length = len(order)
        if resume.num_samples not in (None, length):
            raise StateError(
                f"num_samples is {length} now, but the state that was loaded in the middle of "
                f"epoch {resume.epoch} had {resume.num_samples}: the data set must not change "
                f"inside an epoch; go on with set_epoch({resume.epoch + 1})"
            )
        if resume.order not in (None, kind):
            raise StateError(
                f"order is {kind!r} now, but the state that was loaded in the middle of epoch "
                f"{resume.epoch} had {resume.order!r}: an order must not change inside an epoch; "
                f"go on with set_epoch({resume.epoch + 1})"
            )
        world = self._whereabouts.ask()
        origin = resume.origin
        if origin is None:
            rotates = self._custom is None and not self._shuffle and self._tail in ("wrap", "fill")
            step = world.size if batching is None else batching.global_batch_size
            origin = resume.epoch * step % length if rotates and length else 0
        return Plan(
            epoch=resume.epoch,
            order=Rotation(length, origin) if origin else order,
            start=length if resume.spent else resume.position,
            origin=origin,
            world=world,
            seat=(world.rank + self._start_rank) % world.size,
            tail=self._tail,
            batching=batching,
            kind=kind,
        )

    def _kind(self, epoch: int) -> str:
        if self._custom is not None:
            return name_of(self._custom, epoch)
        return SHUFFLED if self._shuffle else "sequential"

    def _state(
        self, epoch: int, position: int, length: int, origin: int | None, kind: str | None = None
    ) -> State:
        return State(epoch, position, length, self._seed, kind or self._kind(epoch), origin)

    def _whole_state(self) -> State:
        if self._latest is not None:
            return self._latest.state()
        resume = self._resume
        if resume.finished is not None:
            return resume.finished
        length = self.num_samples if resume.num_samples is None else resume.num_samples
        return self._state(resume.epoch, resume.position, length, resume.origin, resume.order)

    def _resume_of(self, state: State) -> _ResumePoint:
        if state.finished:
            return _ResumePoint(state.epoch + 1, finished=state)
        if not state.begun:
            return _ResumePoint(state.epoch)
        here = {"num_samples": len(self._order(state.epoch)), "order": self._kind(state.epoch)}
        if self._custom is None and self._shuffle:
            here["seed"] = self._seed
        for name, value in here.items():
            if getattr(state, name) != value:
                raise StateError(
                    f"{name} of the state is {getattr(state, name)!r}, but this sampler's is "
                    f"{value!r}: they must agree in the middle of an epoch (position "
                    f"{state.position} of {state.num_samples}); nothing was loaded"
                )
        if state.origin and (self._shuffle or self._custom is not None):
            raise StateError(
                f"origin of the state is {state.origin}, but only unshuffled epochs are rotated: "
                f"it must be 0 with order {state.order!r}; nothing was loaded"
            )
        return _ResumePoint(
            state.epoch, state.position, state.origin, state.num_samples, state.order
        )

    def _plan_of_state(self, state: Mapping[str, Any], batching: Batching | None) -> Plan:
        """For an iterator that loads a state: a finished one leaves nothing of its epoch."""
        loaded = State.from_dict(state)
        if loaded.finished:
            return self._plan(_ResumePoint(loaded.epoch, finished=loaded), batching)
        return self._plan(self._resume_of(loaded), batching)

    def _warn_once(self, category: type[Warning], message: str, depth: int = 1) -> None:
        """Warn, at the line that called the library so many calls above."""
        if category not in self._warned:
            self._warned.add(category)
            warnings.warn(message, category, stacklevel=depth + 2)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle carries: the resume point, not the running iterators."""
        return {
            **self.__dict__,
            "_resume": self._start(),
            "_latest": None,
            "_planned": None,
            "_tracked": None,
            "_known_order": None,
        }
