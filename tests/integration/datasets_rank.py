"""One rank of a job that selects its share of a `datasets.Dataset`.

usage: datasets_rank.py RUN STEP, to train and be killed after a step (never after step 0)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import torch
import torch.distributed as dist
from datasets import Dataset
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from elastic_sampler import ElasticDistributedSampler, SampleLog

CHECKPOINT = Path("checkpoint.json")


def train(run: int, killed_after: int) -> None:
    dist.init_process_group("gloo")
    pixels, digits = load_digits(return_X_y=True)
    columns = {"image": (pixels / 16).astype("float32"), "label": digits, "i": range(len(digits))}
    digits_set = Dataset.from_dict(columns).with_format("torch")
    model = DistributedDataParallel(nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    sampler, step = ElasticDistributedSampler(digits_set, shuffle=True, seed=0), 0
    if CHECKPOINT.exists():
        saved = json.loads(CHECKPOINT.read_text())
        step = saved["step"]
        sampler.load_state_dict(saved["sampler"])
    rank, size = sampler.world.rank, sampler.world.size
    with SampleLog(f"{run}-{rank}.jsonl", sampler.world, run=run) as log:
        for epoch in sampler.epochs(3):
            for batch in digits_set.select(sampler.share()).iter(batch_size=32 // size):
                step += 1
                log.write(epoch, step, batch["i"])
                optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
                loss.backward()
                optimizer.step()
                sampler.advance(len(batch["i"]))
                if step % 15 == 0 and rank == 0:
                    CHECKPOINT.write_text(
                        json.dumps({"step": step, "sampler": sampler.state_dict()})
                    )
                if step == killed_after:
                    os.kill(os.getpid(), SIGKILL)
    dist.destroy_process_group()


if __name__ == "__main__":
    train(int(sys.argv[1]), int(sys.argv[2]))
