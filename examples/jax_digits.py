"""Train a classifier of handwritten digits in plain JAX, with processes that come and go.

Alone, or as several processes of jax.distributed. Stop it, and start it again with another number
of processes: it goes on in the middle of the epoch with the same global batches, and every image is
trained exactly once per epoch. Needs JAX and scikit-learn.

    python examples/jax_digits.py
    for i in 0 1; do python examples/jax_digits.py --processes=2 --process=$i & done; wait
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

from elastic_sampler import ElasticBatchSampler, ElasticDistributedSampler, SampleLog, World, audit

HELD_OUT = 297  # of 1 797 images

Array = Any
Model = dict[str, Array]  # weights, and beside each its velocity


def train_and_test_sets() -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    pixels, digits = load_digits(return_X_y=True)
    mixed = np.random.default_rng(0).permutation(len(digits))
    images, labels = (pixels[mixed] / 16).astype(np.float32), digits[mixed].astype(np.int32)
    return (images[:-HELD_OUT], labels[:-HELD_OUT]), (images[-HELD_OUT:], labels[-HELD_OUT:])


def new_model() -> Model:
    draw = np.random.default_rng(0).normal
    weights = {
        "w1": draw(scale=0.1, size=(64, 256)),
        "b1": np.zeros(256),
        "w2": draw(scale=0.1, size=(256, 10)),
        "b2": np.zeros(10),
    }
    weights |= {f"velocity of {name}": np.zeros_like(w) for name, w in weights.items()}
    return {name: value.astype(np.float32) for name, value in weights.items()}


def scores(model: Model, images: Array) -> Array:
    return jax.nn.relu(images @ model["w1"] + model["b1"]) @ model["w2"] + model["b2"]


def loss(weights: Model, images: Array, labels: Array) -> Array:
    likely = jax.nn.log_softmax(scores(weights, images))
    return -jnp.take_along_axis(likely, labels[:, None], axis=1).mean()


def step_of(model: Model, images: Array, labels: Array) -> Model:
    """One step of the whole job: the mean is over the global batch."""
    weights = {name: model[name] for name in ("w1", "b1", "w2", "b2")}
    for name, gradient in jax.grad(loss)(weights, images, labels).items():
        velocity = 0.9 * model[f"velocity of {name}"] + gradient
        model = {**model, name: model[name] - 0.05 * velocity, f"velocity of {name}": velocity}
    return model


def save(path: Path, model: Model, state: dict[str, Any], step: int) -> None:
    unfinished = path.with_suffix(".tmp")
    with unfinished.open("wb") as file:
        np.savez(file, job=json.dumps({"sampler": state, "step": step}), **model)
    unfinished.replace(path)  # whoever is killed in here leaves the previous checkpoint


def load(path: Path) -> tuple[Model, dict[str, Any]]:
    with np.load(path) as saved:
        model = {name: saved[name] for name in saved.files}
    job: dict[str, Any] = json.loads(str(model.pop("job")))
    return model, job


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train on digits in plain JAX.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0, help="which of them this is")
    parser.add_argument("--coordinator", default="127.0.0.1:29500", help="address of process 0")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--global-batch-size", type=int, default=48, help="of all processes")
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--stop-after", type=int, metavar="STEPS", help="as if time were up")
    parser.add_argument("--directory", type=Path, default=Path("digits"), help="checkpoint, logs")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    args.directory.mkdir(parents=True, exist_ok=True)
    checkpoint = args.directory / "checkpoint.npz"
    if args.processes > 1:
        jax.distributed.initialize(
            args.coordinator,
            args.processes,
            args.process,
            coordinator_bind_address=args.coordinator,
        )
    mesh = jax.make_mesh((jax.device_count(),), ("data",))
    divided, everywhere = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    world = World.from_jax_mesh(mesh, "data")

    (images, labels), test_set = train_and_test_sets()
    # "fill": the last batch of an epoch is a whole one, too. One shape is compiled, once.
    sampler = ElasticDistributedSampler(images, shuffle=True, seed=0, tail="fill", world=world)
    batches = ElasticBatchSampler(sampler, args.global_batch_size)
    model, step = new_model(), 0
    if checkpoint.exists():  # in every process, however many have saved it
        model, job = load(checkpoint)
        sampler.load_state_dict(job["sampler"])
        step = job["step"]
    model = jax.device_put(model, everywhere)
    take_step = jax.jit(step_of, out_shardings=everywhere)
    part = partial(jax.make_array_from_process_local_data, divided)

    # Each start of the job is a run. Its number must grow, and be the same in all processes.
    run = int(multihost_utils.broadcast_one_to_all(np.uint32(time.time())))
    if world.rank == 0:
        at = f"epoch {sampler.epoch}, position {sampler.position} of {len(images)}, step {step}"
        print(f"world size {world.size}: {at}", flush=True)

    stop = None if args.stop_after is None else step + args.stop_after
    with SampleLog(args.directory / f"{run}-{world.rank}.jsonl", world, run=run) as log:
        for epoch in sampler.epochs(args.epochs):  # from the loaded epoch on
            for batch in batches.track(batches):  # from the loaded position on
                # Before the step, which is done only when all processes have come to it: what a
                # checkpoint covers, every process has logged.
                log.write(epoch, step, batch)
                model = take_step(model, part(images[batch]), part(labels[batch]))
                step += 1
                if step == stop:
                    return
                if step % args.checkpoint_every == 0 and world.rank == 0:
                    save(checkpoint, jax.device_get(model), sampler.state_dict(), step)

    if world.rank == 0:
        model = jax.device_get(model)
        save(checkpoint, model, sampler.state_dict(), step)
        right = np.asarray(scores(model, test_set[0]).argmax(axis=1)) == test_set[1]
        print(f"accuracy on {HELD_OUT} held-out digits: {right.mean():.3f}")
        logs = sorted(args.directory.glob("*.jsonl"))
        report = audit(logs, len(images), tail="fill", places=args.global_batch_size)
        print(report, flush=True)


if __name__ == "__main__":
    main()
