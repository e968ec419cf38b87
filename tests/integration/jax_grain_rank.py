"""One rank that loads with Grain, its worker processes included, and logs what it trained.

usage: jax_grain_rank.py dataset|loader DIRECTORY RANK SIZE RUN STEPS

It goes on from the state in the directory, if there is one, and stops after STEPS steps with a
state, or at the end of epoch 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import absl.flags
import grain
import numpy as np

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, SampleLog, World
from elastic_sampler.grain_sampler import GrainSampler

KIND, DIRECTORY = sys.argv[1], Path(sys.argv[2])
RANK, SIZE, RUN, STEPS = map(int, sys.argv[3:])
N, G, EPOCHS = 500, 24, 2

squares = np.arange(N) ** 2
"""The data: what a sample is tells its index."""


def load(batch: list[int]) -> Any:
    return squares[np.array(batch)]


def dataset(batches: ElasticBatchSampler) -> Any:
    """Whole batches of this rank, loaded by two worker processes."""
    workers = grain.MultiprocessingOptions(num_workers=2)
    return grain.MapDataset.source(batches.share()).map(load).to_iter_dataset().mp_prefetch(workers)


def loader(sampler: ElasticDistributedSampler) -> Any:
    """The samples of this rank, one by one, loaded by two worker processes."""
    return grain.DataLoader(
        data_source=squares,
        sampler=GrainSampler(sampler.share()),
        shard_options=grain.sharding.NoSharding(),
        worker_count=2,
    )


def passes(sampler: ElasticDistributedSampler) -> Iterator[tuple[int, Iterator[list[int]]]]:
    """For each epoch the tracked batches, as indices."""
    batches = ElasticBatchSampler(sampler, G)
    tracked: Iterator[Any]
    for epoch in sampler.epochs(EPOCHS):
        if KIND == "dataset":
            tracked = iter(batches.track(dataset(batches)))
        else:
            singles = iter(sampler.track(loader(sampler), batch_size=1))
            tracked = iter(partial(lambda singles: [*islice(singles, G // SIZE)], singles), [])
        yield epoch, ([round(value**0.5) for value in batch] for batch in tracked)


def main() -> None:
    absl.flags.FLAGS.mark_as_parsed()  # Grain's worker processes read some
    sampler = ElasticDistributedSampler(
        N, shuffle=True, seed=0, tail="fill", world=World(RANK, SIZE)
    )
    saved, step = DIRECTORY / "job.json", 0
    if saved.exists():
        job = json.loads(saved.read_text())
        sampler.load_state_dict(job["sampler"])
        step = job["step"]
    last = step + STEPS
    with SampleLog(DIRECTORY / f"{RUN}-{RANK}.jsonl", sampler.world, run=RUN) as log:
        for epoch, batches in passes(sampler):
            for batch in batches:
                log.write(epoch, step, batch)
                step += 1
                if step == last:
                    job = {"sampler": sampler.state_dict(), "step": step}
                    (DIRECTORY / f"job-{RANK}.json").write_text(json.dumps(job))
                    return


if __name__ == "__main__":
    main()
