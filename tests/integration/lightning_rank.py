"""One rank of a Lightning job.

usage: lightning_rank.py RUN STEP, to train and be killed after a step (never after step 0),
or lightning_rank.py wrong, to print as JSON what comes of wrong set-ups.
"""

# mypy: disallow-subclassing-any=False
from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from signal import SIGKILL
from typing import Any

import torch
from lightning import Callback, Fabric, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    SampleLog,
    World,
)

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

pixels, digits = load_digits(return_X_y=True)
IMAGES, LABELS = torch.tensor(pixels).float() / 16, torch.tensor(digits)
DIGITS: Any = list(zip(IMAGES, LABELS, range(len(LABELS)), strict=True))


def train_loader() -> Iterable[Any]:
    sampler = ElasticDistributedSampler(DIGITS, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, global_batch_size=32)
    loader = DataLoader(DIGITS, batch_sampler=batches, num_workers=1)
    return batches.track(loader, whole_epoch=True)


class Classifier(LightningModule):
    """It logs what it trains."""

    def __init__(self, log: SampleLog | None = None) -> None:
        super().__init__()
        self.net, self.log_file = nn.Linear(64, 10), log
        self.trained = 0

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        images, labels, indices = batch
        self.trained += len(indices)
        if self.log_file is not None:
            self.log_file.write(self.current_epoch, self.global_step + 1, indices)
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Kill(Callback):
    """SIGKILL after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, *told: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), SIGKILL)


def trainer(epochs: int, **options: Any) -> Trainer:
    return Trainer(
        accelerator="cpu",
        devices=SIZE,
        strategy="ddp" if SIZE > 1 else "auto",
        max_epochs=epochs,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def train(run: int, killed_after: int) -> None:
    saves = ModelCheckpoint("checkpoints", every_n_train_steps=15, save_last=True)
    with SampleLog(f"{run}-{RANK}.jsonl", World(RANK, SIZE), run=run) as log:
        trainer(3, callbacks=[saves, Kill(killed_after)]).fit(
            Classifier(log), train_loader(), ckpt_path="last"
        )


def wrong() -> dict[str, Any]:
    """What Lightning makes of loaders that it divides once more."""
    found: dict[str, Any] = {}
    sampler = ElasticDistributedSampler(DIGITS, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, global_batch_size=32)
    divided = DataLoader(DIGITS, batch_size=16, sampler=sampler)

    fabric = Fabric(accelerator="cpu", devices=SIZE, strategy="ddp")
    fabric.launch()
    try:
        for _ in sampler.track(fabric.setup_dataloaders(divided)):
            pass
    except LoaderMismatchError as error:
        found["Fabric, tracked"] = str(error)

    model = Classifier()
    trainer(1, enable_checkpointing=False).fit(model, divided)
    found["trained of the rank's share, not tracked"] = [model.trained, len(sampler)]

    try:
        refused = DataLoader(DIGITS, batch_sampler=batches)
        trainer(1, enable_checkpointing=False).fit(Classifier(), refused)
    except TypeError as error:
        found["batch sampler"] = str(error)
    return found


if __name__ == "__main__":
    if sys.argv[1] == "wrong":
        print(json.dumps(wrong()))
    else:
        train(int(sys.argv[1]), int(sys.argv[2]))
