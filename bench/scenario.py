r"""Play one epoch through changing world sizes with the real code of every peer that is installed.

1,000,003 samples, shuffled, global batches of 96, on 8, 6, 7 and 3 ranks, one after the other. At
each change all ranks are made anew and load what the peer itself has saved; `peers.py` shows for
each how. Then it is counted which samples were lost or repeated.

Each peer runs in a process of its own. One that is not installed is left out. This is what pip
installs, best into a virtual environment of its own (the peers' own requirements for cloud storage
are not needed, and contradict one another)::

    pip install . torch torchvision "numpy<2.2" "setuptools<81" "transformers<5" "xxhash<4"
    pip install --no-deps accelerate adaptdl dlrover grain litdata mosaicml-streaming torchdata \
        torchft
    pip install absl-py array-record autograd boto3 Brotli catalogue cloudpickle deprecated \
        "etils[epath,epy]" lightning-utilities obstore opentelemetry-sdk \
        opentelemetry-exporter-otlp-proto-http pandas portpicker psutil pynvml python-snappy \
        redis scipy semver tifffile zstd

Horovod 0.28.1 does not compile against a torch that asks for C++17. Its sampler is Python: unpack
what `pip download --no-deps horovod` gives, and have PYTHONPATH name that folder. Megatron is not
played: the wheel megatron-core has no samplers.

usage: python bench/scenario.py [--peer NAME] [--worlds 8:800,6:500,7:700,3] [--rank-batch 12]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from job import Job, Stage, Step, stages
from peers import PEERS, Peer, described

from elastic_sampler import audit
from elastic_sampler.sample_log import Entry

LINE = "{:18} {:>9} {:>9} {:>9} {:>6} {:>12} {:>12} {:>7}"
HEAD = LINE.format("", "version", "lost", "repeated", "tail", "batches", "equal steps", "seconds")


def entries(steps: list[Step]) -> Iterator[Entry]:
    """The steps as a log of the job."""
    for number, step in enumerate(steps):
        for rank, samples in enumerate(step.samples):
            if samples:
                size = len(step.samples)
                yield Entry(step.stage, 0, number, rank, size, tuple(samples))


def counted(job: Job, steps: list[Step], peer: Peer) -> dict[str, Any]:
    """What the steps of a whole job come to."""
    places = max(sum(map(len, step.samples)) for step in steps)
    [epoch] = audit(entries(steps), job.num_samples, tail=peer.tail, places=places).epochs
    sizes, apart = [], 0
    for _, played in groupby(steps, lambda step: step.stage):
        stage = list(played)
        sizes.append(sum(map(len, stage[0].samples)))
        taken = [sum(map(bool, ranks)) for ranks in zip(*(s.samples for s in stage), strict=True)]
        apart = max(apart, max(taken) - min(taken))
    lost, tail = len(epoch.lost) + len(epoch.dropped), len(epoch.tail)
    return {
        "lost": lost,
        "repeated": epoch.trained - (job.num_samples - lost) - tail,
        "tail": tail,
        "batches": sizes,
        "apart": apart,
    }


def play(peer: Peer, job: Job) -> dict[str, Any]:
    """Play the job, in this process, and say what it came to."""
    steps: list[Step] = []
    began = time.perf_counter()
    refused = None
    try:
        for step in peer.play(job):
            steps.append(step)
    except Exception as error:
        refused = described(error)
    seconds = time.perf_counter() - began
    found = counted(job, steps, peer) if steps else {}
    return {
        **found,
        "seconds": seconds,
        "refused": refused,
        "stages": len({step.stage for step in steps}),
    }


def line(name: str, peer: Peer, found: dict[str, Any]) -> str:
    """A line of the table, and one more for a refusal."""
    if not found.get("batches"):
        cells = ["", "", "", "", ""]
    else:
        apart = found["apart"]
        cells = [
            "" if found["refused"] else f"{found['lost']:,}",
            f"{found['repeated']:,}",
            f"{found['tail']:,}",
            "/".join(str(size) for size, _ in groupby(found["batches"])),
            "yes" if not apart else f"{apart} apart",
        ]
    told = LINE.format(name, version(peer.distribution), *cells, f"{found['seconds']:.0f}")
    if found["refused"]:
        told += f"\n    refused after {found['stages']} stages: {found['refused']}"
    return told


def in_a_fresh_process(name: str, arguments: list[str]) -> dict[str, Any]:
    """Play with one peer in a process of its own."""
    command = [sys.executable, __file__, *arguments, "--play", name]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    if ran.returncode:
        error = ran.stderr.strip().splitlines()[-1:]
        return {"refused": f"ended with {ran.returncode}: {error}", "seconds": 0, "stages": 0}
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def worlds(text: str) -> list[tuple[int, int | None]]:
    """World sizes and steps, `8:800,6:500,3`."""
    parts = [part.partition(":") for part in text.split(",")]
    return [(int(size), int(steps) if steps else None) for size, _, steps in parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--num-samples", type=int, default=1_000_003)
    parser.add_argument("--worlds", type=worlds, default="8:800,6:500,7:700,3")
    parser.add_argument("--global-batch", type=int, default=96)
    parser.add_argument("--rank-batch", type=int, help="each rank keeps this, whatever the world")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only this, or these")
    parser.add_argument("--play", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    played: tuple[Stage, ...] = stages(options.worlds, options.global_batch, options.rank_batch)
    if options.play:
        with tempfile.TemporaryDirectory() as directory:
            job = Job(options.num_samples, played, Path(directory))
            print(json.dumps(play(PEERS[options.play], job)))
        return
    print(HEAD)
    for name in options.peer or PEERS:
        peer = PEERS[name]
        if importlib.util.find_spec(peer.module) is None:
            print(f"{name:18} left out: {peer.distribution} is not installed", flush=True)
        else:
            print(line(name, peer, in_a_fresh_process(name, sys.argv[1:])), flush=True)


if __name__ == "__main__":
    main()
