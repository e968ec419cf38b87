"""Train a classifier of handwritten digits, with ranks that come and go.

Alone, or under torchrun. Kill it, let torchrun shrink and grow it, or start it again with another
number of ranks: it goes on in the middle of the epoch, and every image is trained exactly once per
epoch. Needs torch and scikit-learn.

    python examples/torch_digits.py
    torchrun --nnodes=1:2 --nproc-per-node=2 --max-restarts=3 \
        --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:29400 examples/torch_digits.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from elastic_sampler import ElasticDistributedSampler, SampleLog, audit

HELD_OUT = 297  # of 1 797 images


class Digits(Dataset[tuple[Tensor, Tensor, int]]):
    """Images and labels. A sample carries its index, so that the loop can log what it trained."""

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        return self.images[index], self.labels[index], index


def train_and_test_sets() -> tuple[Digits, Digits]:
    data, target = load_digits(return_X_y=True)
    images, labels = torch.tensor(data, dtype=torch.float32) / 16, torch.tensor(target)
    mixed = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = mixed[:-HELD_OUT], mixed[-HELD_OUT:]
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])


def save(path: Path, parts: dict[str, Any], step: int) -> None:
    states = {name: part.state_dict() for name, part in parts.items()}
    unfinished = path.with_suffix(".tmp")
    torch.save({**states, "step": step}, unfinished)
    unfinished.replace(path)  # whoever is killed in here leaves the previous checkpoint


def load(path: Path, parts: dict[str, Any]) -> int:
    """Load every part's state, if there is a checkpoint, and return the job's step number."""
    if not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["step"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on digits, with ranks that come and go.")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch-size", type=int, default=8, help="of one rank")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--directory", type=Path, default=Path("digits"), help="checkpoint, logs")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    args.directory.mkdir(parents=True, exist_ok=True)
    checkpoint = args.directory / "checkpoint.pt"
    together = dist.is_torchelastic_launched()  # by torchrun
    if together:
        dist.init_process_group("gloo")

    train_set, test_set = train_and_test_sets()
    sampler = ElasticDistributedSampler(train_set, shuffle=True, seed=0)
    loader = DataLoader(
        train_set, args.batch_size, sampler=sampler, num_workers=2, persistent_workers=True
    )
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    parts = {"net": net, "optimizer": optimizer, "sampler": sampler}
    step = load(checkpoint, parts)  # on every rank, at whatever world size it was saved
    model = DistributedDataParallel(net) if together else net

    # Each start of the job is a run. Its number must grow, and be the same on all ranks.
    run = torch.tensor(time.time_ns())
    if together:
        dist.broadcast(run, src=0)
    world = sampler.world
    if world.rank == 0:
        at = f"epoch {sampler.epoch}, position {sampler.position} of {len(train_set)}, step {step}"
        print(f"world size {world.size}: {at}", flush=True)

    with SampleLog(args.directory / f"{run}-{world.rank}.jsonl", world, run=int(run)) as log:
        for epoch in sampler.epochs(args.epochs):  # from the loaded epoch on
            for images, labels, indices in sampler.track(loader):  # from the loaded position on
                loss = nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                step += 1
                log.write(epoch, step, indices)
                if step % args.checkpoint_every == 0:
                    if together:
                        dist.barrier()  # what the checkpoint covers, every rank has logged
                    if world.rank == 0:
                        save(checkpoint, parts, step)

    if together:
        dist.barrier()
        dist.destroy_process_group()
    if world.rank == 0:
        save(checkpoint, parts, step)
        with torch.no_grad():
            right = net(test_set.images).argmax(dim=1) == test_set.labels
        print(f"accuracy on {HELD_OUT} held-out digits: {right.float().mean():.3f}")
        print(audit(sorted(args.directory.glob("*.jsonl")), len(train_set)), flush=True)


if __name__ == "__main__":
    main()
