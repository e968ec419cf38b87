"""A job of Ray Train: two ranks begin, one goes on, two end it; then a wrong set-up.

usage: ray_job.py DIRECTORY

The logs of what was trained go to the directory, and what each rank is told of the wrong set-up.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader

from elastic_sampler import (
    ElasticBatchSampler,
    ElasticDistributedSampler,
    LoaderMismatchError,
    SampleLog,
)


def digits() -> Any:
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels).float() / 16
    return list(zip(images, torch.tensor(labels), range(len(labels)), strict=True))


def train(config: dict[str, Any]) -> None:
    """One rank of one run. It stops after a step, as a job that is killed."""
    data, run, step = digits(), config["run"], 0
    net = nn.Linear(64, 10)
    model = prepare_model(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = ElasticDistributedSampler(data, shuffle=True, seed=0)
    batches = ElasticBatchSampler(sampler, global_batch_size=32)
    loader = prepare_data_loader(DataLoader(data, batch_sampler=batches), add_dist_sampler=False)

    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            saved = torch.load(Path(directory, "state.pt"))
        step = saved["step"]
        sampler.load_state_dict(saved["sampler"])
        net.load_state_dict(saved["net"])
    world = sampler.world
    with SampleLog(Path(config["logs"], f"{run}-{world.rank}.jsonl"), world, run=run) as log:
        for epoch in sampler.epochs(3):
            for images, labels, indices in batches.track(loader):
                step += 1
                log.write(epoch, step, indices)
                optimizer.zero_grad()
                loss: Any = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimizer.step()
                if step % 15 == 0:
                    state = {"step": step, "sampler": sampler.state_dict(), "net": net.state_dict()}
                    report({"step": step}, world.rank, state)
                if step == config["stop"]:
                    return
    if config["then_wrong"]:
        Path(config["logs"], f"wrong-{world.rank}.txt").write_text(wrong())


def report(metrics: dict[str, Any], rank: int, state: dict[str, Any]) -> None:
    """Rank 0 brings the checkpoint; all ranks must report."""
    with TemporaryDirectory() as directory:
        if rank == 0:
            torch.save(state, Path(directory, "state.pt"))
        checkpoint = None if rank else Checkpoint.from_directory(directory)
        ray.train.report(metrics, checkpoint=checkpoint)


def wrong() -> str:
    """What is said when Ray may replace the sampler."""
    data: Any = range(1000)
    sampler = ElasticDistributedSampler(data, shuffle=True, seed=0)
    loader = prepare_data_loader(DataLoader(data, batch_size=16, sampler=sampler))
    try:
        next(iter(sampler.track(loader)))
    except LoaderMismatchError as error:
        return str(error)
    return "nothing"


def fit(logs: Path, run: int, size: int, stop: int, *, then_wrong: bool = False) -> None:
    config = {"logs": str(logs), "run": run, "stop": stop, "then_wrong": then_wrong}
    scaling = ScalingConfig(num_workers=size, resources_per_worker={"CPU": 1})
    # A run of the same name in the same storage goes on from its last checkpoint.
    storage = RunConfig(name="digits", storage_path=str(logs / "storage"))
    trainer = TorchTrainer(
        train, train_loop_config=config, scaling_config=scaling, run_config=storage
    )
    trainer.fit()


def main(logs: Path) -> None:
    # Not in the logs' directory: paths of sockets must be short.
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        ray.init(
            address="local",
            num_cpus=3,
            include_dashboard=False,
            object_store_memory=100 * 2**20,
            log_to_driver=False,
            _temp_dir=scratch,
        )
        fit(logs, run=0, size=2, stop=20)
        fit(logs, run=1, size=1, stop=80)
        fit(logs, run=2, size=2, stop=-1, then_wrong=True)
        ray.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
