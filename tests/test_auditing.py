"""Logs and their audit: what was lost, repeated or unequal, relative to the checkpoints."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import histories, world_sizes

from elastic_sampler import ElasticDistributedSampler, SampleLog, World, audit
from elastic_sampler.sample_log import Entry, read_log
from elastic_sampler.share import Tail


def job(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    *,
    tail: Tail = "wrap",
    batch_size: int = 2,
    lost_steps: int = 0,
    epochs: int = 2,
) -> list[Entry]:
    """A job of two epochs in this process: `lost_steps` steps after each checkpoint are redone."""
    entries: list[Entry] = []
    state: dict[str, Any] | None = None
    step = 0
    for run, (size, steps) in enumerate([*history, (last, 10**9)]):
        samplers = [
            ElasticDistributedSampler(n, shuffle=True, tail=tail, world=World(rank, size))
            for rank in range(size)
        ]
        for sampler in samplers:
            if state is not None:
                sampler.load_state_dict(state)
        done = 0
        for epoch in samplers[0].epochs(epochs):
            for sampler in samplers[1:]:
                sampler.set_epoch(epoch)
            shares = [sampler.share() for sampler in samplers]
            for begin in range(0, max(map(len, shares)), batch_size):
                for rank, share in enumerate(shares):
                    if batch := tuple(share[begin : begin + batch_size]):
                        entries.append(Entry(run, epoch, step + done, rank, size, batch))
                        if done < steps:
                            samplers[rank].advance(len(batch))
                done += 1
                if done == steps:
                    state = samplers[0].state_dict()
                if done == steps + lost_steps:
                    break
            if done >= steps:
                break
        else:
            break
        step += steps
    return entries


@given(
    st.integers(0, 120),
    histories.map(lambda history: history[:3]),
    world_sizes.map(lambda size: size % 9 + 1),
    st.sampled_from(["wrap", "uneven", "fill"]),
    st.integers(0, 3),
)
def test_a_job_that_is_killed_and_resumed_is_exact_whatever_was_redone(
    n: int, history: list[tuple[int, int]], last: int, tail: Tail, lost_steps: int
) -> None:
    history = [(size % 9 + 1, steps) for size, steps in history]
    found = audit(job(n, history, last, tail=tail, lost_steps=lost_steps), n, tail=tail)

    assert found.exact, str(found)
    assert all(n + len(epoch.tail) == epoch.trained for epoch in found.epochs)


def entries_of(n: int = 12, size: int = 2) -> list[Entry]:
    return job(n, [], size, batch_size=1, epochs=1)


def test_a_sample_that_nobody_trained_is_lost() -> None:
    found = audit(entries_of(12), 13)

    assert (12,) == found.epochs[0].lost.first
    assert not found.exact
    assert "NOT exactly once; 1 lost" in str(found)


def test_a_sample_that_was_trained_twice_is_repeated_also_in_the_last_step() -> None:
    entries = entries_of()
    twice = [*entries[:-2], Entry(0, 0, 4, 0, 2, entries[0].samples), *entries[-2:]]
    assert entries[0].samples == audit(twice, 12).epochs[0].repeated.first

    everything = [Entry(0, 0, 6, rank, 2, tuple(range(12))) for rank in range(2)]
    found = audit([*entries, *everything], 12).epochs[0]
    assert tuple(range(12)) == found.repeated.first
    assert not found.tail


def test_the_wrap_around_tail_is_no_repeat_where_the_tail_wraps() -> None:
    entries = job(13, [], 4, batch_size=1, epochs=1)

    assert 3 == len(audit(entries, 13).epochs[0].tail)
    assert audit(entries, 13).exact
    for tail in ("drop", "uneven"):
        assert 3 == len(audit(entries, 13, tail=tail).epochs[0].repeated)
    assert 3 == len(audit(entries, 13, places=3).epochs[0].repeated)


def test_what_drop_leaves_out_is_not_lost_up_to_a_step() -> None:
    entries = job(11, [], 4, batch_size=1, epochs=1, tail="drop")

    assert 3 == len(audit(entries, 11, tail="drop").epochs[0].dropped)
    assert audit(entries, 11, tail="drop").exact
    assert 3 == len(audit(entries, 11).epochs[0].lost)
    assert not audit(entries[:-4], 11, tail="drop").exact


def test_ranks_that_are_missing_or_unequal_in_a_step_are_named() -> None:
    entries = entries_of()
    missing = [e for e in entries if (e.step, e.rank) != (3, 1)]
    assert ("epoch 0, step 3: nothing from ranks [1] of 2",) == audit(missing, 12).epochs[
        0
    ].unequal.first

    (first, *rest) = entries
    more = [Entry(0, 0, 0, 0, 2, (*first.samples, 99)), *rest]
    found = audit(more, 12).epochs[0]
    assert (
        "epoch 0, step 0: ranks have different numbers of samples [1, 2]",
    ) == found.unequal.first
    assert (99,) == found.foreign.first

    other = [Entry(0, 0, 0, 0, 3, first.samples), *rest]
    assert "different runs or world sizes" in audit(other, 12).epochs[0].unequal.first[0]
    again = [first, *entries]
    assert "more than one line from ranks [0]" in audit(again, 12).epochs[0].unequal.first[0]


def test_the_last_step_may_be_uneven_where_the_tail_is() -> None:
    entries = job(5, [], 2, batch_size=1, epochs=1, tail="uneven")

    assert audit(entries, 5, tail="uneven").exact
    assert not audit(entries, 5).exact


def test_only_what_a_later_run_did_again_does_not_count() -> None:
    steps = [Entry(0, 0, step, 0, 1, (step,)) for step in range(6)]
    later = [Entry(7, 0, step, 0, 1, (step,)) for step in range(4, 8)]
    last = [Entry(9, 0, step, 0, 1, (step,)) for step in range(6, 10)]

    found = audit([*last, *steps, *later], 10)
    assert found.exact
    assert 4 == found.redone
    skipped = [Entry(7, 0, step, 0, 1, (step,)) for step in range(7, 10)]
    assert (6,) == audit([*steps, *skipped], 10).epochs[0].lost.first


def test_epochs_can_be_chosen_and_one_that_nobody_trained_is_lost_whole() -> None:
    found = audit(entries_of(), 12, epochs=[0, 5])

    assert [True, False] == [epoch.exact for epoch in found.epochs]
    assert tuple(range(12)) == found.epochs[1].lost.first
    assert audit(entries_of(), 13, epochs=[]).exact


def test_a_log_is_written_and_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "rank1.jsonl"
    with SampleLog(path, World(1, 2), run=3) as log:
        log.write(0, 5, [1, 3])
        log.write(0, 6, iter([7]))

    line = {"run": 3, "epoch": 0, "step": 5, "rank": 1, "world_size": 2, "samples": [1, 3]}
    assert line == json.loads(path.read_text().splitlines()[0])
    assert [Entry(3, 0, 5, 1, 2, (1, 3)), Entry(3, 0, 6, 1, 2, (7,))] == list(read_log(path))
    with SampleLog(str(path), World(0, 1), run=4) as log:
        log.write(1, 7, [])
    assert 3 == len(list(read_log(path)))


def test_a_last_line_that_a_kill_has_torn_is_left_out_and_any_other_bad_line_is_named(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.jsonl"
    with SampleLog(path, World(0, 1)) as log:
        log.write(0, 0, [0])
    good = path.read_bytes()
    path.write_bytes(good + good[:20])
    assert 1 == len(list(read_log(path)))

    for bad in (b"nonsense\n", b'{"run": 0}\n', good.replace(b'"rank": 0', b'"rank": 4')):
        path.write_bytes(good + bad)
        with pytest.raises(ValueError, match=r"log\.jsonl, line 2: not an entry of a log"):
            audit([path], 1)


def test_an_audit_reads_files_and_refuses_bad_arguments(tmp_path: Path) -> None:
    paths = [tmp_path / f"{rank}.jsonl" for rank in range(2)]
    for entry in entries_of():
        with SampleLog(paths[entry.rank], World(entry.rank, 2)) as log:
            log.write(entry.epoch, entry.step, entry.samples)
    assert audit(paths, 12).exact
    assert "epoch 0: 12 trained in 6 steps: exactly once" == str(audit(paths, 12))

    with pytest.raises(ValueError, match="tail must be one of"):
        audit([], 5, tail="pad")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="num_samples must be at least 0"):
        audit([], -1)
    with pytest.raises(ValueError, match="places must be at least 1"):
        audit([], 5, places=0)


@pytest.mark.parametrize(("size", "exact"), [(3, True), (4, False)])
def test_parts_of_a_global_batch_may_differ_by_one_where_the_ranks_do_not_divide_it(
    size: int, exact: bool
) -> None:
    entries = [
        Entry(0, 0, 0, rank, size, tuple(range(rank, 9 if size == 4 else 8, size)))
        for rank in range(size)
    ]

    num_samples = 9 if size == 4 else 8
    assert exact is audit(entries, num_samples, places=8).exact
    assert not audit(entries, num_samples).exact


def as_csv(entries: list[Entry], *, rows: int) -> str:
    """The same as CSV, each step in so many rows at most."""
    lines = ["epoch,step,rank,world_size,run,loss,samples"]
    for e in entries:
        size = -(-len(e.samples) // rows) or 1
        for begin in range(0, len(e.samples) or 1, size):
            some = " ".join(map(str, e.samples[begin : begin + size]))
            lines.append(f"{e.epoch},{e.step},{e.rank},{e.world_size},{e.run},0.5,{some}")
    return "\n".join(lines) + "\n"


@given(
    st.integers(0, 60),
    histories.map(lambda history: history[:3]),
    st.integers(1, 5),
    st.integers(0, 3),
    st.sampled_from(["json", "csv", "concatenated", "merged"]),
    st.data(),
)
def test_files_say_what_the_entries_say_however_they_are_cut_and_joined(
    n: int,
    history: list[tuple[int, int]],
    last: int,
    lost_steps: int,
    kind: str,
    data: st.DataObject,
) -> None:
    history = [(size % 5 + 1, steps) for size, steps in history]
    entries = job(n, history, last, lost_steps=lost_steps)
    # Whatever has gone wrong, both must find it.
    gone = data.draw(st.sets(st.sampled_from(range(len(entries))), max_size=3)) if entries else ()
    entries = [entry for number, entry in enumerate(entries) if number not in gone]
    logs: dict[str, list[Entry]] = {}
    for entry in entries:
        name = {"json": f"{entry.run}-{entry.rank}", "csv": f"{entry.rank}"}.get(kind, "all")
        logs.setdefault(name, []).append(entry)
    with TemporaryDirectory() as name:
        paths = []
        for log, found in logs.items():
            paths.append(Path(name, f"{log}.{'csv' if kind == 'csv' else 'jsonl'}"))
            if kind == "concatenated":
                found.sort(key=lambda entry: (entry.run, entry.rank, entry.at))
            text = "".join(json.dumps(asdict(entry)) + "\n" for entry in found)
            rows = data.draw(st.integers(1, 3))
            paths[-1].write_text(as_csv(found, rows=rows) if kind == "csv" else text)

        assert audit(entries, n) == audit(paths, n)


def test_a_step_that_goes_back_in_a_rank_of_a_run_was_trained_out_of_order(tmp_path: Path) -> None:
    path = tmp_path / "rank0.jsonl"
    with SampleLog(path, World(0, 1)) as log:
        for step in (0, 2, 1, 3):
            log.write(0, step, [step])
    found = audit([path], 4)

    assert all(epoch.exact for epoch in found.epochs)
    assert not found.exact
    (told,) = found.disordered.first
    assert "rank0.jsonl, line 3: epoch 0, step 1 of rank 0 after epoch 0, step 2" in told
    assert "1 lines out of order" in str(found)


def test_lines_that_are_no_entries_are_listed_if_they_are_no_errors(tmp_path: Path) -> None:
    good = '{"epoch": 0, "step": 0, "rank": 0, "world_size": 1, "samples": [0], "loss": 1.5}\n'
    texts = {
        "log.jsonl": f"{good}nonsense\n[1]\n{good.replace('step', 'stop')}{'[' * 100_000}\n",
        "no-header.csv": "0,0,0,1,5\n",
        "short.csv": "epoch,step,rank,world_size,samples\n0,1,0,1,1\n0,1\n0,2,0,1,x\n0,2,7,1,2\n",
        "empty.csv": "",
        "empty.jsonl": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = audit(sorted(tmp_path.iterdir()), 2, strict=False)

    assert found.exact
    assert 8 == len(found.unreadable)
    told = [line.removeprefix(f"{tmp_path}/") for line in found.unreadable.first]
    starts = [*(f"log.jsonl, line {number}: not an entry" for number in (2, 3, 4, 5))]
    starts += ["no-header.csv, line 1: the header", *(f"short.csv, line {n}: " for n in (3, 4, 5))]
    assert all(line.startswith(start) for line, start in zip(told, starts, strict=True)), told
    assert "no 'step'" in told[2]
    with pytest.raises(ValueError, match=r"no-header\.csv, line 1"):
        audit([tmp_path / "no-header.csv"], 2)


def test_logs_are_streamed_and_findings_kept_up_to_a_thousand(tmp_path: Path) -> None:
    # 4 ranks that all train everything: 200 000 samples in each of two epochs.
    for rank in range(4):
        with SampleLog(tmp_path / f"{rank}.jsonl", World(rank, 4)) as log:
            for step in range(50):
                samples = range(step % 25 * 2000, (step % 25 + 1) * 2000)
                log.write(step // 25, step, samples)
    tracemalloc.start()
    try:
        found = audit(sorted(tmp_path.iterdir()), 100_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 2_500_000  # lines of 2 000 samples, of four ranks
    for epoch in found.epochs:
        assert (200_000, 50_000, 50_000) == (epoch.trained, len(epoch.repeated), len(epoch.lost))
        assert tuple(range(1000)) == epoch.repeated.first
        assert tuple(range(50_000, 51_000)) == epoch.lost.first
        assert (150_000, 1000) == (len(epoch.marks), len(epoch.marks.first))


def test_the_bands_of_a_picture_are_the_runs_and_the_marks_the_repeats() -> None:
    (epoch,) = audit(job(103, [(4, 8), (3, 10)], 5, batch_size=1, epochs=1), 103).epochs

    assert [(4, 0, 32, 8), (3, 32, 62, 10), (5, 62, 107, 9)] == [
        (band.world_size, band.start, band.stop, band.steps) for band in epoch.bands
    ]
    assert {(rank, 102 + rank) for rank in range(1, 5)} == set(epoch.marks.first)
