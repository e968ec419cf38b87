"""One rank of a job with Accelerate.

usage: accelerate_rank.py RUN STEP, to train and be killed after a step (never after step 0),
or accelerate_rank.py prepared, where the loader is prepared, too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import torch
from accelerate import Accelerator
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, SampleLog

pixels, digits = load_digits(return_X_y=True)
IMAGES, LABELS = torch.tensor(pixels).float() / 16, torch.tensor(digits)
DIGITS: Any = list(zip(IMAGES, LABELS, range(len(LABELS)), strict=True))


class Step:
    """A counter that is saved with the checkpoint."""

    done = 0

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]


def train(run: int, killed_after: int, prepared: bool = False) -> None:
    accelerator = Accelerator(cpu=True)
    sampler = ElasticDistributedSampler(DIGITS, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, global_batch_size=32)
    loader = DataLoader(DIGITS, batch_sampler=batches, num_workers=1)
    net: Any = nn.Linear(64, 10)
    optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer = accelerator.prepare(net, optimizer)
    if prepared:
        loader = accelerator.prepare(loader)

    step = Step()
    accelerator.register_for_checkpointing(sampler, step)
    if Path("checkpoint").exists():
        accelerator.load_state("checkpoint")
    with SampleLog(f"{run}-{sampler.world.rank}.jsonl", sampler.world, run=run) as log:
        for epoch in sampler.epochs(3):
            for images, labels, indices in batches.track(loader):
                step.done += 1
                log.write(epoch, step.done, indices)
                accelerator.backward(nn.functional.cross_entropy(net(images), labels))
                optimizer.step()
                optimizer.zero_grad()
                if step.done % 15 == 0:
                    accelerator.save_state("checkpoint")
                if step.done == killed_after:
                    os.kill(os.getpid(), SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "prepared":
        train(0, 0, prepared=True)
    else:
        train(int(sys.argv[1]), int(sys.argv[2]))
