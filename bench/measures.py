"""What is measured, each time in a fresh process: forked from one that has its imports done.

It needs Linux: forks, and what /proc says of memory.

usage: python bench/measures.py CONTENDER < tasks (JSON lists, one a line) > figures (JSON)
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from contenders import CONTENDERS, Contender

Figures: TypeAlias = dict[str, float]

WARM_UP = 5000
"""Enough samples to import and cache what a contender needs."""

RESUMED_AT = 0.99
"""Which part of the epoch is done when it is resumed."""

ARRAY = 10**7
"""How many indices are asked for as an array at most."""


def peak() -> int:
    """The largest resident set of this process so far, but for code mapped from files, in KiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return int(status["VmHWM"].split()[0]) - int(status["RssFile"].split()[0])


def iterate(contender: Contender, num_samples: int, world_size: int) -> Figures:
    """An epoch of rank 0: set-up, memory, and what an index costs.

    No more than `limit` indices are drawn; those after the first say what the others would cost.
    """
    count = -(-num_samples // world_size)
    drawn = min(count, contender.limit)
    before, began = peak(), time.perf_counter()
    indices = iter(contender.epoch(num_samples, world_size))
    next(indices)
    first = time.perf_counter() - began
    for _ in islice(indices, drawn - 1):
        pass
    each = (time.perf_counter() - began - first) / max(drawn - 1, 1)
    return {
        "ns": (first + each * (count - 1)) / count * 1e9,
        "following_ns": each * 1e9,
        "first_ms": first * 1e3,
        "peak_mb": (peak() - before) / 1024,
    }


def resume(contender: Contender, num_samples: int, world_size: int) -> Figures:
    """The first index after a resume near the end of an epoch."""
    position = int(num_samples * RESUMED_AT) // world_size * world_size
    began = time.perf_counter()
    next(iter(contender.rest(num_samples, world_size, position)))
    return {"first_ms": (time.perf_counter() - began) * 1e3}


def load(contender: Contender, num_samples: int, world_size: int) -> Figures:
    """An epoch of batches through a DataLoader without workers, over data that are their index."""
    from torch.utils.data import DataLoader

    def epoch(num_samples: int, world_size: int) -> int:
        data: Any = range(num_samples)
        batches = contender.batches(num_samples, world_size)
        return sum(1 for _ in DataLoader[Any](data, batch_sampler=batches))

    epoch(WARM_UP, 1)
    began = time.perf_counter()
    count = epoch(num_samples, world_size)
    return {"us_per_batch": (time.perf_counter() - began) / count * 1e6}


def array(contender: Contender, num_samples: int, world_size: int) -> Figures:
    """The indices as an array: `Share.numpy()`."""
    sampler: Any = contender.epoch(num_samples, world_size)
    sampler.share()[:WARM_UP].numpy()
    began = time.perf_counter()
    found = sampler.share()[:ARRAY].numpy()
    return {"ns": (time.perf_counter() - began) / len(found) * 1e9}


MEASURES: dict[str, Callable[[Contender, int, int], Figures]] = {
    measure.__name__: measure for measure in (iterate, resume, load, array)
}


def in_a_fork(contender: Contender, measure: str, num_samples: int, world_size: int) -> object:
    """The figures of one task, or, as a string, why there are none."""
    context = get_context("fork")
    here, there = context.Pipe(duplex=False)
    task = (there, contender, measure, num_samples, world_size)
    process = context.Process(target=_send, args=task)
    process.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return "the process died"
    finally:
        process.join()


def _send(there: Connection, contender: Contender, measure: str, *sizes: int) -> None:
    try:
        _warm_up(contender)  # a fork has the imports, but must map their memory anew
        there.send(MEASURES[measure](contender, *sizes))
    except Exception as error:  # a size that a contender cannot do is a finding, too
        there.send(f"{type(error).__name__}: {error}")


def _warm_up(contender: Contender) -> None:
    for _ in contender.epoch(WARM_UP, 1):
        pass


def main() -> None:
    contender = CONTENDERS[sys.argv[1]]
    contender.prepare()
    _warm_up(contender)
    for line in sys.stdin:
        print(json.dumps(in_a_fork(contender, *json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
