"""An elastic job of Ray Train without torch: one rank begins, a node joins, two ranks go on.

usage: ray_elastic_job.py DIRECTORY

Ray starts the function anew when the world size changes, with the last checkpoint. The logs of what
was trained, and what each rank was told of its world, go to the directory.
RAY_TMPDIR must be a directory with a short path, for Ray's sockets.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ray
import ray.train
from ray.cluster_utils import Cluster
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer

from elastic_sampler import ElasticDistributedSampler, SampleLog

NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "resources": {"rank": 1}}


def train(config: dict[str, Any]) -> None:
    """One rank of one run. As one of two it ends with the epoch after the one that it began in."""
    directory, run, step = Path(config["directory"]), 0, 0
    sampler = ElasticDistributedSampler(200, shuffle=True, seed=0)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        saved = json.loads(Path(checkpoint.path, "state.json").read_text())
        run, step = saved["run"] + 1, saved["step"]
        sampler.load_state_dict(saved["sampler"])

    world, began = sampler.world, sampler.epoch
    said = f"{world.rank} of {world.size}: {world.source}, position {sampler.position}"
    (directory / f"said-{run}-{world.rank}.txt").write_text(said)
    with SampleLog(directory / f"{run}-{world.rank}.jsonl", world, run=run) as log:
        for epoch in sampler.epochs(sys.maxsize):
            for index in sampler:
                log.write(epoch, step, [index])
                sampler.advance(1)
                step += 1
                if step % 7 == 0:
                    state = {"run": run, "step": step, "sampler": sampler.state_dict()}
                    report(world.rank, state)
                    (directory / "reported.txt").touch()
            if world.size == 2 and epoch > began:
                return


def report(rank: int, state: dict[str, Any]) -> None:
    """Rank 0 brings the checkpoint; all ranks must report."""
    with TemporaryDirectory() as directory:
        Path(directory, "state.json").write_text(json.dumps(state))
        checkpoint = None if rank else Checkpoint.from_directory(directory)
        ray.train.report({"step": state["step"]}, checkpoint=checkpoint)


def main(directory: Path) -> None:
    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={**NODE, "num_cpus": 2, "include_dashboard": False},
        shutdown_at_exit=False,  # else only the main thread may add a node
    )
    ray.init(address=cluster.address, log_to_driver=False)

    def join() -> None:
        while not (directory / "reported.txt").exists():
            time.sleep(0.1)
        cluster.add_node(**NODE)

    threading.Thread(target=join, daemon=True).start()
    scaling: Any = ScalingConfig  # Ray's hints are those of its older class
    DataParallelTrainer(
        train,
        train_loop_config={"directory": str(directory)},
        scaling_config=scaling(
            num_workers=(1, 2),
            resources_per_worker={"rank": 1},
            elastic_resize_monitor_interval_s=1.0,
        ),
        run_config=RunConfig(name="elastic", storage_path=str(directory / "storage")),
    ).fit()
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
