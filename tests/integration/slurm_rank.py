"""One process of a real launcher: say which world is found, deal a part of an epoch, log it.

usage: slurm_rank.py DIRECTORY RUN STEPS

A run goes on from the state of the one before, and leaves its own after so many steps, 0 for all
that are left: every rank takes as many, so that of rank 0 stands for the job.
"""

import json
import os
import sys
from itertools import islice
from pathlib import Path

from elastic_sampler import ElasticDistributedSampler, SampleLog

directory, run, steps = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
sampler = ElasticDistributedSampler(1000, shuffle=True, seed=1)
before, step = directory / f"state-{run - 1}.json", 0
if before.exists():
    saved = json.loads(before.read_text())
    step = saved["step"]
    sampler.load_state_dict(saved["sampler"])

world = sampler.world
said = {
    "rank": world.rank,
    "size": world.size,
    "source": world.source,
    "node": os.environ.get("SLURMD_NODENAME"),
}
# Named by the process: ranks that are told the same must not hide one another.
(directory / f"said-{run}-{os.getpid()}.json").write_text(json.dumps(said))
iterator = iter(sampler)
with SampleLog(directory / f"log-{run}-{os.getpid()}.jsonl", world, run=run) as log:
    for index in islice(iterator, steps or None):
        log.write(sampler.epoch, step, [index])
        step += 1
if world.rank == 0:
    state = {"step": step, "sampler": iterator.state_dict()}
    (directory / f"state-{run}.json").write_text(json.dumps(state))
