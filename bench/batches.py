"""Measure ElasticBatchSampler in a DataLoader against torch's DistributedSampler + BatchSampler.

A whole epoch of rank 0, its set-up included: shuffled, no workers, batches of 256 of each rank, and
a data set that returns the index. As in `compare.py` each figure comes from a fresh process, the
contenders taking turns, the best of several rounds: read the ratios.

usage: python bench/batches.py [--num-samples 1000000] [--worlds 1,8,64] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from typing import Any

CONTENDERS = "torch", "ours", "no NumPy"


def batch_sampler(name: str, num_samples: int, world_size: int, batch_size: int) -> Any:
    """What deals the batches of rank 0."""
    if name == "torch":
        from torch.utils.data import BatchSampler, DistributedSampler

        data: Any = range(num_samples)
        sampler: Any = DistributedSampler(data, num_replicas=world_size, rank=0, shuffle=True)
        return BatchSampler(sampler, batch_size, drop_last=False)
    from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, World

    elastic = ElasticDistributedSampler(num_samples, shuffle=True, world=World(0, world_size))
    return ElasticBatchSampler(elastic, batch_size * world_size)


def epoch(name: str, num_samples: int, world_size: int, batch_size: int) -> int:
    """Load an epoch, and say how many samples that were."""
    from torch.utils.data import DataLoader

    data: Any = range(num_samples)
    dealt = batch_sampler(name, num_samples, world_size, batch_size)
    return sum(len(batch) for batch in DataLoader[Any](data, batch_sampler=dealt))


def measure(name: str, num_samples: int, world_size: int, batch_size: int) -> float:
    """Nanoseconds per sample of one contender, in this process."""
    if name == "no NumPy":
        warnings.simplefilter("ignore")  # torch misses it
        sys.modules["numpy"] = None  # type: ignore[assignment]
    epoch(name, 10_000, 1, batch_size)  # imports and caches, not what is measured
    began = time.perf_counter()
    count = epoch(name, num_samples, world_size, batch_size)
    return (time.perf_counter() - began) / count * 1e9


def in_a_fresh_process(*task: str | int) -> float:
    """The same, in a process of its own."""
    command = [sys.executable, __file__, "--measure", json.dumps(task)]
    return float(subprocess.run(command, capture_output=True, check=True, timeout=900).stdout)


def compare(sizes: list[int], worlds: list[int], rounds: int, batch_size: int) -> None:
    """Print a table with one line per size, world size and contender."""
    print(f"{'n':>13} {'W':>4} {'':8} {'ns/sample':>9}  ratio")
    for num_samples in sizes:
        for world_size in worlds:
            runs: dict[str, list[float]] = {name: [] for name in CONTENDERS}
            for _ in range(rounds):
                for name, found in runs.items():
                    found.append(in_a_fresh_process(name, num_samples, world_size, batch_size))
            for name, found in runs.items():
                ratio = min(found) / min(runs["torch"])
                print(
                    f"{num_samples:>13,} {world_size:>4} {name:8} {min(found):>9.0f}  {ratio:.2f}",
                    flush=True,
                )


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-samples", type=numbers, default=[1_000_000])
    parser.add_argument("--worlds", type=numbers, default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="of one rank")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(measure(*json.loads(options.measure)))
    else:
        compare(options.num_samples, options.worlds, options.rounds, options.batch_size)


if __name__ == "__main__":
    main()
