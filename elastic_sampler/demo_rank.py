"""One rank of the demo: a process of its own that deals, reads its lines, logs and obeys.

It reads orders from standard input and answers each on standard output, one JSON line each. It ends
when its input ends, so nothing is left behind, whatever happens to the process that started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .sample_log import SampleLog
from .sampler import ElasticDistributedSampler


class Rank:
    """What one process knows: the file, where each line begins, and a sampler over the lines."""

    def __init__(self, path: str, log: str, seed: int) -> None:
        self._file, self._log = Path(path).open("rb"), log  # noqa: SIM115 - open to the end
        self._starts = [0]
        for line in self._file:
            self._starts.append(self._starts[-1] + len(line))
        self._sampler = ElasticDistributedSampler(len(self._starts) - 1, shuffle=True, seed=seed)
        self._iterator: Iterator[int] = iter(())

    def begin(self, rank: int, size: int, run: int, state: dict[str, Any] | None) -> dict[str, Any]:
        """Take part as this rank of so many, from a state on: also in the middle of a life."""
        # A launcher would have set these; the sampler asks for them when it is iterated over.
        os.environ["ELASTIC_SAMPLER_RANK"] = str(rank)
        os.environ["ELASTIC_SAMPLER_WORLD_SIZE"] = str(size)
        if state is not None:
            self._sampler.load_state_dict(state)
        self._iterator = iter(self._sampler)
        self._samples = SampleLog(self._log, self._sampler.world, run=run)
        return {}

    def step(self, step: int) -> dict[str, Any]:
        """Train on one line: read it, and count its words."""
        index = next(self._iterator, None)
        if index is None:
            return {"done": True}
        self._file.seek(self._starts[index])
        words = len(self._file.read(self._starts[index + 1] - self._starts[index]).split())
        self._sampler.advance()
        self._samples.write(self._sampler.epoch, step, [index])
        return {"done": False, "words": words, "state": self._sampler.state_dict()}


def main() -> None:
    """Obey until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    rank = Rank(*json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        order = json.loads(line)
        answer = rank.begin(**order) if "rank" in order else rank.step(**order)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
