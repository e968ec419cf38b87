"""Measure the sampler against torch's DistributedSampler, side by side in one run.

Each figure comes from a fresh process, the contenders taking turns, the best of several rounds:
machines are shared and noisy, so read the ratios. Memory is what the sampler adds to the peak of a
process that has its imports done.

usage: python bench/compare.py [--num-samples 100000,1000000] [--worlds 1,8,64] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

CONTENDERS = "torch", "ours", "no NumPy"


def contender(name: str, num_samples: int, world_size: int) -> Any:
    """A sampler of rank 0, shuffled."""
    if name in ("ours", "no NumPy"):
        from elastic_sampler import ElasticDistributedSampler, World

        return ElasticDistributedSampler(num_samples, shuffle=True, world=World(0, world_size))
    from torch.utils.data import DistributedSampler

    data: Any = range(num_samples)
    return DistributedSampler(data, num_replicas=world_size, rank=0, shuffle=True)


def peak() -> int:
    """The largest resident set of this process so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(name: str, num_samples: int, world_size: int, limit: int) -> dict[str, float]:
    """Figures of one contender, in this process. It iterates over at most `limit` indices."""
    if name == "no NumPy":
        sys.modules["numpy"] = None  # type: ignore[assignment]
    for _ in contender(name, 10_000, 1):  # imports and caches, not what is measured
        pass
    before, began = peak(), time.perf_counter()
    indices: Iterator[int] = iter(contender(name, num_samples, world_size))
    next(indices)
    first, count = time.perf_counter() - began, 1
    for _ in indices:
        count += 1
        if count >= limit:
            break
    took = time.perf_counter() - began
    return {"ns": took / count * 1e9, "first": first * 1e3, "MB": (peak() - before) / 1024}


def in_a_fresh_process(
    name: str, num_samples: int, world_size: int, limit: int
) -> dict[str, float]:
    """The same, in a process of its own."""
    task = json.dumps([name, num_samples, world_size, limit])
    ran = subprocess.run(
        [sys.executable, __file__, "--measure", task], capture_output=True, check=True, timeout=900
    )
    figures: dict[str, float] = json.loads(ran.stdout)
    return figures


def compare(sizes: list[int], worlds: list[int], rounds: int, limit: int) -> None:
    """Print a table with one line per size, world size and contender."""
    print(f"{'n':>13} {'W':>4} {'':8} {'ns/index':>9} {'first ms':>9} {'peak MB':>8}  ratio (ns)")
    for num_samples in sizes:
        for world_size in worlds:
            runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
            for _ in range(rounds):
                for name, found in runs.items():
                    found.append(in_a_fresh_process(name, num_samples, world_size, limit))
            best = {
                name: {key: min(run[key] for run in found) for key in found[0]}
                for name, found in runs.items()
            }
            for name, row in best.items():
                ratio = row["ns"] / best["torch"]["ns"]
                print(
                    f"{num_samples:>13,} {world_size:>4} {name:8} {row['ns']:>9.0f} "
                    f"{row['first']:>9.2f} {row['MB']:>8.1f}  {ratio:.2f}",
                    flush=True,
                )


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-samples", type=numbers, default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--worlds", type=numbers, default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--limit", type=int, default=10**6, help="iterate over at most so many indices"
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(*json.loads(options.measure))))
    else:
        compare(options.num_samples, options.worlds, options.rounds, options.limit)


if __name__ == "__main__":
    main()
