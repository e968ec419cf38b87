"""Simulation: what the rounds say is what real samplers deal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import batch_sizes, epochs, histories, sample_counts, seeds, tails, world_sizes

from elastic_sampler import Report, simulate
from elastic_sampler.share import Tail
from elastic_sampler.simulation import Round, Stage


@given(sample_counts, histories, world_sizes, batch_sizes, tails, seeds, st.booleans(), epochs)
def test_for_every_history_the_laws_hold_and_the_figures_are_what_is_counted(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    batch_size: int,
    tail: Tail,
    seed: int,
    shuffle: bool,
    epoch: int,
) -> None:
    report = simulate(
        n,
        [*history, last],
        batch_size=batch_size,
        epoch=epoch,
        tail=tail,
        seed=seed,
        shuffle=shuffle,
    )

    assert () == report.violations
    assert report.finished == (n > 0)
    assert report.seen == len(report.counts)
    assert report.repeated == report.counts.total() - len(report.counts)
    assert report.unseen == n - len(report.counts)
    assert report.unseen == 0 or tail == "drop"
    assert len(report.tail_samples) == report.repeated
    starts, stops = [r.start for r in report.rounds], [r.stop for r in report.rounds]
    assert [0, *stops[:-1]] == starts


@given(sample_counts, histories, world_sizes, st.integers(0, 50), tails, st.booleans(), epochs)
def test_global_batches_keep_the_laws_at_every_history_too(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    more: int,
    tail: Tail,
    shuffle: bool,
    epoch: int,
) -> None:
    worlds: list[tuple[int, int] | int] = [*history, last]
    size = more + max(world if isinstance(world, int) else world[0] for world in worlds)
    report = simulate(
        n, worlds, global_batch_size=size, tail=tail, shuffle=shuffle, epoch=epoch, start_rank=1
    )

    assert () == report.violations
    assert report.seen == len(report.counts)
    assert report.repeated == report.counts.total() - len(report.counts)
    assert len(report.tail_samples) == report.repeated
    for round_ in report.rounds:
        assert list(round_.samples_per_rank) == [len(list(share)) for share in round_.shares]


def test_a_step_of_global_batches_is_the_same_at_every_world_size() -> None:
    worlds: list[tuple[int, int] | int] = [(8, 1000), (6, 500), (7, 2000), 3]
    report = simulate(1_000_003, worlds, global_batch_size=96, shuffle=True)

    assert [96_000, 144_000, 336_000, 1_000_003] == [r.stop for r in report.rounds]
    assert (28_000,) * 5 + (26_000,) * 2 == report.rounds[2].samples_per_rank
    assert (1_000_003, 2, 0) == (report.seen, report.repeated, report.unseen)
    dropped = simulate(1_000_003, worlds, global_batch_size=96, tail="drop")
    assert (1_000_003 % 96, 0) == (dropped.unseen, dropped.repeated)
    trillion = simulate(10**12, [(512, 10**6), 7], global_batch_size=1000, tail="fill")
    assert (10**12, 0) == (trillion.seen, trillion.repeated)
    with pytest.raises(ValueError, match="of one rank and global_batch_size of all ranks"):
        simulate(10, [2], batch_size=2, global_batch_size=4)
    with pytest.raises(ValueError, match="at least the world size"):
        simulate(10, [5], global_batch_size=4)


def test_a_stage_lasts_for_steps_or_samples_or_to_the_end() -> None:
    report = simulate(1000, [(4, 5), Stage(3, samples=100), Stage(2, steps=1), 7], batch_size=8)

    assert [160, 280, 296, 1000] == [r.stop for r in report.rounds]
    assert [5, 5, 1, 13] == [r.steps for r in report.rounds]
    assert (40,) * 4 == report.rounds[0].samples_per_rank
    assert (13,) * 7 == report.rounds[-1].steps_per_rank


def test_stages_after_the_end_of_the_epoch_are_not_played() -> None:
    assert 1 == len(simulate(10, [4, 3, 2]).rounds)
    assert 1 == len(simulate(0, [4, 3, 2]).rounds)


def test_a_history_that_stops_early_leaves_the_epoch_unfinished() -> None:
    report = simulate(100, [(4, 5)])

    assert not report.finished
    assert (20, 0, 80) == (report.seen, report.repeated, report.unseen)
    assert () == report.violations


def test_a_trillion_samples_cost_no_more_than_a_few() -> None:
    report = simulate(10**12, [(512, 10**6), 7], batch_size=96, shuffle=True)

    assert (10**12, 0) == (report.seen, report.unseen)
    assert report.repeated == -(10**12 - 512 * 96 * 10**6) % 7


def broken(report: Report, **changes: Any) -> tuple[str, ...]:
    (first, *rest) = report.rounds
    fields = {name: getattr(first, name) for name in Round.__dataclass_fields__}
    return Report(report.num_samples, report.tail, (Round(**fields | changes), *rest)).violations


def test_each_law_is_found_broken_when_it_is() -> None:
    report = simulate(40, [(4, 5), 3])
    shares: Any = report.rounds[0].shares

    assert () == broken(report)
    assert "batch: " in broken(report, start=1)[0]
    assert "resume: " in broken(report, agreed=False)[0]
    assert "agreement: " in broken(report, shares=(shares[0][:2], *shares[1:]))[1]
    lost = broken(report, shares=(shares[0][1:], *shares[1:]))
    assert any("skipped" in told for told in lost)
    assert any("1 positions were not visited" in told for told in lost)
    assert any("more than once" in told for told in broken(report, shares=(*shares, shares[0])))


@pytest.mark.parametrize(
    ("worlds", "told"),
    [
        ([], "worlds must have at least one stage"),
        ([0], "world_size must be at least 1, got 0"),
        ([(4, 0)], "steps must be at least 1, got 0"),
        ([(4, -2)], "steps must be at least 1, got -2"),
    ],
)
def test_a_bad_history_is_refused_by_name(worlds: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        simulate(10, worlds)
    with pytest.raises(ValueError, match="steps or samples, not both"):
        Stage(4, 5, 6)
    with pytest.raises(ValueError, match=r"num_samples must be at most 2\*\*62, got"):
        simulate(2**62 + 1, [1])
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        simulate(10, [1], batch_size=0)
