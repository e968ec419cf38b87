"""Measure what asking for the world costs: all providers, after the first time.

usage: python bench/detection.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import os
import time
from timeit import repeat

from elastic_sampler import World

ENVIRONMENTS = {
    "nobody answers": {},
    "torchrun": {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"},
    "MPICH": {"PMI_RANK": "1", "PMI_SIZE": "4"},
    "Slurm step": {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many is printed")
    rounds = parser.parse_args().rounds
    began = time.perf_counter()
    World.detect()
    print(f"{'first time':16} {(time.perf_counter() - began) * 1e3:8.1f} ms")
    for name, variables in ENVIRONMENTS.items():
        os.environ.update(variables)
        best = min(repeat(World.detect, number=1000, repeat=rounds)) / 1000
        print(f"{name:16} {best * 1e6:8.1f} µs  {World.detect()!r:.60}")
        for variable in variables:
            del os.environ[variable]


if __name__ == "__main__":
    main()
