"""One rank of a job with the Trainer of Hugging Face transformers.

usage: trainer_rank.py RUN STEP, to train and be killed after a step (never after step 0),
or trainer_rank.py prepared, where the loader is prepared.
"""

# mypy: disallow-subclassing-any=False
from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from signal import SIGKILL
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainingArguments

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, SampleLog, World

pixels, digits = load_digits(return_X_y=True)
DIGITS: Any = [
    {"images": torch.tensor(image).float() / 16, "labels": int(label), "index": index}
    for index, (image, label) in enumerate(zip(pixels, digits, strict=True))
]


class SaveSampler(TrainerCallback):
    """Keeps the sampler's state in the Trainer's checkpoints."""

    def __init__(self, batches: ElasticBatchSampler) -> None:
        self.batches = batches

    def path(self, args: Any, state: Any) -> Path:
        return Path(args.output_dir, f"checkpoint-{state.global_step}", "sampler.json")

    def on_save(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if state.is_world_process_zero:
            self.path(args, state).write_text(json.dumps(self.batches.state_dict()))

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if state.global_step:  # resumed from that checkpoint
            self.batches.load_state_dict(json.loads(self.path(args, state).read_text()))


class Kill(TrainerCallback):
    """SIGKILL after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if state.global_step == self.step:
            os.kill(os.getpid(), SIGKILL)


class ElasticTrainer(Trainer):
    """It deals the global batches, and logs what it trains."""

    def __init__(self, batches: ElasticBatchSampler, prepared: bool, log: SampleLog, **told: Any):
        super().__init__(**told)
        self.batches, self.prepared, self.log_file = batches, prepared, log

    def get_train_dataloader(self) -> Any:
        loader = DataLoader(
            self.train_dataset,
            batch_sampler=self.batches,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
        )
        if self.prepared:
            loader = self.accelerator.prepare(loader)
        return self.batches.track(loader, whole_epoch=True)

    def training_step(self, model: Any, inputs: Any, *told: Any) -> Any:
        self.log_file.write(self.batches.epoch, self.state.global_step + 1, inputs.pop("index"))
        return super().training_step(model, inputs, *told)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(64, 10)

    def forward(self, images: Tensor, labels: Tensor) -> dict[str, Tensor]:
        return {"loss": nn.functional.cross_entropy(self.net(images), labels)}


def train(run: int, killed_after: int, prepared: bool = False) -> None:
    sampler = ElasticDistributedSampler(DIGITS, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, global_batch_size=32)
    args = TrainingArguments(
        "checkpoints",
        use_cpu=True,
        num_train_epochs=3,
        save_steps=15,
        ignore_data_skip=True,
        dataloader_num_workers=1,
        report_to=[],
        disable_tqdm=True,
    )
    world = World(args.process_index, args.world_size)
    with SampleLog(f"{run}-{world.rank}.jsonl", world, run=run) as log:
        trainer = ElasticTrainer(
            batches,
            prepared,
            log,
            model=Classifier(),
            args=args,
            train_dataset=DIGITS,
            callbacks=[SaveSampler(batches), Kill(killed_after)],
        )
        trainer.train(resume_from_checkpoint=run > 0)


if __name__ == "__main__":
    if sys.argv[1] == "prepared":
        train(0, 0, prepared=True)
    else:
        train(int(sys.argv[1]), int(sys.argv[2]))
