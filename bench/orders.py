"""Measure every kind of order: set-up, first index, time per index and memory.

Each figure comes from a fresh process, with NumPy and without, the best of several rounds: machines
are shared and noisy. *Make* is the constructor, from an input that is there already; *first* is the
order of an epoch and the first index of rank 0 of W; *ns* is per index of what that rank iterates
over. Memory is what all this adds to the peak of a process that has its imports and input done.

usage: python bench/orders.py [--num-samples 1000000] [--worlds 1,8] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

Maker: TypeAlias = Callable[[], Any]


def makers(name: str, n: int) -> Maker:
    """What makes an order of n samples; its input is made here and now."""
    from elastic_sampler import orders

    whole = range(n)
    if name == "Sequential":
        return lambda: orders.Sequential(n)
    if name == "Shuffled":
        return lambda: orders.Shuffled(n)
    if name == "BlockShuffled":
        return lambda: orders.BlockShuffled(n, 1000, window=8)
    if name == "Mixture":
        parts = {"a": (n // 2, 7), "b": (n // 4, 2), "c": (n // 4, 1)}
        return lambda: orders.Mixture(parts, n)
    if name.startswith("Weighted"):
        weights = array("d", (1 + i % 1000 for i in whole))
        if name == "Weighted":
            return lambda: orders.Weighted(weights)
        return lambda: orders.Weighted(weights, n // 2, replacement=False)
    if name == "Subset":
        indices = array("q", range(0, 2 * n, 2))
        return lambda: orders.Subset(indices, orders.Shuffled(n))
    if name == "Concat":
        half = n // 2
        parts_ = {"a": (half, orders.Shuffled(half)), "b": (n - half, orders.Shuffled(n - half))}
        return lambda: orders.Concat(parts_)
    if name == "FromSampler":
        return lambda: orders.FromSampler(whole)
    if name == "Grouped":
        lengths = array("q", (1 + i * i % 997 for i in whole))
        return lambda: orders.Grouped.by_length(lengths, token_budget=32_000)
    raise ValueError(f"no such order: {name}")


ORDERS = (
    "Sequential",
    "Shuffled",
    "BlockShuffled",
    "Mixture",
    "Weighted",
    "Weighted, no replacement",
    "Subset",
    "Concat",
    "FromSampler",
    "Grouped",
)


def peak() -> int:
    """The largest resident set of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(name: str, n: int, world_size: int, with_numpy: bool, limit: int) -> dict[str, float]:
    """Figures of one order, in this process. It iterates over at most `limit` places."""
    if with_numpy:
        import numpy  # noqa: F401 (its import is not what is measured)
    else:
        sys.modules["numpy"] = None  # type: ignore[assignment]
    from elastic_sampler import ElasticDistributedSampler, World

    def sampler_of(order: Any) -> ElasticDistributedSampler:
        return ElasticDistributedSampler(0, order=order, world=World(0, world_size))

    for _ in sampler_of(makers(name, 10_000 * world_size)()):  # imports, not what is measured
        pass
    make = makers(name, n)
    before, began = peak(), time.perf_counter()
    order = make()
    made = time.perf_counter()
    places = iter(sampler_of(order))
    head: Any = next(places)
    first = time.perf_counter()
    rest: Any = islice(places, limit - 1)
    count = sum(map(len, rest)) if isinstance(head, list) else sum(1 for _ in rest)
    done = time.perf_counter()
    return {
        "make": (made - began) * 1e3,
        "first": (first - made) * 1e3,
        "ns": (done - first) / count * 1e9,
        "MB": (peak() - before) / 1024,
    }


def in_a_fresh_process(*task: object) -> dict[str, float]:
    """The same, in a process of its own."""
    command = [sys.executable, __file__, "--measure", json.dumps(task)]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=900)
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


def bench(n: int, worlds: list[int], rounds: int, limit: int) -> None:
    """Print a table with one line per order, world size, and with NumPy or without."""
    print(f"{'order':25} {'W':>3} {'NumPy':5} {'make ms':>9} {'first ms':>9} {'ns':>7} {'MB':>7}")
    for name in ORDERS:
        for world_size in worlds:
            for with_numpy in (True, False):
                task = name, n, world_size, with_numpy, limit
                runs = [in_a_fresh_process(*task) for _ in range(rounds)]
                best = {key: min(run[key] for run in runs) for key in runs[0]}
                print(
                    f"{name:25} {world_size:>3} {'with' if with_numpy else 'no':5} "
                    f"{best['make']:>9.1f} {best['first']:>9.1f} {best['ns']:>7.0f} "
                    f"{best['MB']:>7.1f}",
                    flush=True,
                )


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-samples", type=int, default=1_000_000)
    parser.add_argument("--worlds", type=numbers, default=[1, 8])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=int, default=200_000, help="iterate over at most so many places"
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*json.loads(options.measure))))
    else:
        bench(options.num_samples, options.worlds, options.rounds, options.limit)


if __name__ == "__main__":
    main()
