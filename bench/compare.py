"""Measure this sampler and its peers side by side: one command, one run.

Each figure comes from a fresh process, the contenders taking turns, the best of several rounds:
machines are shared and noisy, so read the ratios. What is measured says `measures.py`, of whom
`contenders.py`; peers that are not installed are left out.

usage: python bench/compare.py [--json FILE] [--plot DIRECTORY] [--rounds 3] [--help]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from contenders import CONTENDERS, Contender
from views import VIEWS

Task: TypeAlias = tuple[str, int, int]
"""What to measure, number of samples, world size."""

Found: TypeAlias = dict[tuple[str, Task], dict[str, float]]
"""(contender, task) -> its least figures."""

LONG = 5.0
"""A task that took so many seconds is not repeated."""


def tasks(contender: Contender, options: argparse.Namespace) -> Iterator[Task]:
    """Everything that one contender is asked: sizes on one rank, world sizes at one size."""
    worlds = [world for world in options.worlds if contender.ranks or world == 1]
    sizes = [size for size in options.num_samples if size <= contender.up_to]
    swept = options.size if contender.lazy else options.size[:1]
    cells = [(size, 1) for size in sizes] + [(size, world) for size in swept for world in worlds]
    for size, world in dict.fromkeys(cells):
        yield "iterate", size, world
    for size in sizes:
        # To skip most of 10**8 indices takes minutes, and tells nothing new.
        if contender.lazy or size <= 10**7:
            yield "resume", size, 1
    if find_spec("torch") and not contender.name.startswith("Grain"):  # it has loaders of its own
        for world in worlds[:2]:
            yield "load", options.size[0], world
    if find_spec("numpy") and contender.name == "ours":
        for size in options.size:
            yield "array", size, 1


def measure(contender: Contender, asked: Sequence[Task]) -> Iterator[dict[str, float] | str]:
    """Figures of some tasks, and seconds taken; or why there are none."""
    command = [sys.executable, str(Path(__file__).with_name("measures.py")), contender.name]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for task in asked:
            began = time.perf_counter()
            print(json.dumps(task), file=process.stdin, flush=True)
            line = process.stdout.readline()
            found: dict[str, float] | str = json.loads(line) if line else "the process died"
            if isinstance(found, dict):
                found["seconds"] = time.perf_counter() - began
            yield found


def compare(contenders: Sequence[Contender], options: argparse.Namespace) -> Found:
    """The least figures of all rounds, in each of which the contenders take turns."""
    best: Found = {}
    left = {contender.name: list(tasks(contender, options)) for contender in contenders}
    for number in range(options.rounds):
        for contender in contenders:
            asked = left[contender.name]
            for task, figures in zip(list(asked), measure(contender, list(asked)), strict=True):
                if isinstance(figures, str):
                    print(f"{contender.name} is left out of {task}: {figures}", file=sys.stderr)
                    asked.remove(task)
                    continue
                known = best.setdefault((contender.name, task), figures)
                for name, value in figures.items():
                    known[name] = min(known[name], value)
                if figures["seconds"] > LONG:
                    asked.remove(task)
            print(f"round {number + 1}: {contender.name}", file=sys.stderr, flush=True)
    return best


def report(best: Found, contenders: Sequence[Contender], seconds: float) -> dict[str, Any]:
    """The run as JSON values."""
    return {
        "command": f"python bench/compare.py {' '.join(sys.argv[1:])}".strip(),
        "seconds": round(seconds),
        "machine": {"system": platform.platform(), "cpus": os.cpu_count(), "cpu": _cpu()},
        "versions": {
            "Python": platform.python_version(),
            **{c.package: c.version for c in contenders if c.package},
            **({"numpy": version("numpy")} if find_spec("numpy") else {}),
        },
        "figures": [
            {
                "contender": name,
                "measure": task[0],
                "num_samples": task[1],
                "world_size": task[2],
                **figures,
            }
            for (name, task), figures in best.items()
        ],
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def numbers(text: str) -> list[int]:
    return [int(float(number)) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--num-samples",
        type=numbers,
        default="1e5,1e6,1e7,1e8,1e10,1e12",
        help="sizes on one rank; each contender as far as it can",
    )
    parser.add_argument("--worlds", type=numbers, default="1,8,64,512,4096", help="world sizes")
    parser.add_argument(
        "--size",
        type=numbers,
        default="1e6,1e8",
        help="sizes at which the world size varies, the first for all, the others for those who "
        "build nothing of that size",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--plot", type=Path, metavar="DIRECTORY", help="draw the curves as SVG")
    options = parser.parse_args()
    began = time.perf_counter()
    contenders = [contender for contender in CONTENDERS.values() if contender.version]
    for contender in CONTENDERS.values():
        if contender not in contenders:
            print(f"{contender.name} is left out: {contender.package} is not installed", flush=True)
    best = compare(contenders, options)
    found = report(best, contenders, time.perf_counter() - began)
    for view in VIEWS:
        for line in view.table(found["figures"]):
            print(line)
    print(f"\n{found['machine']}, {found['versions']}, {found['seconds']} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.plot:
        from curves import draw

        draw(found["figures"], options.plot)


if __name__ == "__main__":
    main()
