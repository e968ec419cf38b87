"""How each peer deals the job: its own code, used as its own documentation says.

A peer is a generator of the steps of a job. What it saves itself at the end of a stage, and nothing
else, is carried to the next one. Ranks that can be told who they are live in one process; those
that ask their environment are processes, as many as there are ranks.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from multiprocessing import connection, get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from job import Job, Stage, Step, lockstep

from elastic_sampler.share import Tail

SEED = 1
PATIENCE = 1800.0  # seconds that the ranks of one stage may take together


@dataclass(frozen=True)
class Peer:
    """Something that deals data to ranks.

    Attributes:
        play: Plays a job.
        distribution: What pip calls it.
        module: What Python calls it.
        tail: What it does at the end of an epoch: the audit allows for that.
    """

    play: Callable[[Job], Iterator[Step]]
    distribution: str
    module: str
    tail: Tail = "wrap"


def loaded(loader: Any) -> Iterator[list[int]]:
    return (batch.tolist() for batch in loader)


# This library, torch, and what resembles torch.


def elastic_sampler(job: Job) -> Iterator[Step]:
    from torch.utils.data import DataLoader

    from elastic_sampler import (
        ElasticBatchSampler,
        ElasticDistributedSampler,
        UnequalSharesWarning,
        World,
    )

    warnings.simplefilter("ignore", UnequalSharesWarning)  # 96 over 7 ranks
    data: Any = range(job.num_samples)
    state = None
    for stage in job.stages:
        samplers = [
            ElasticBatchSampler(
                ElasticDistributedSampler(
                    data, shuffle=True, seed=SEED, world=World(rank, stage.world_size)
                ),
                stage.global_batch_size,
            )
            for rank in range(stage.world_size)
        ]
        if state:
            for sampler in samplers:
                sampler.load_state_dict(state)
        loaders = [DataLoader[Any](data, batch_sampler=sampler) for sampler in samplers]
        tracked = zip(samplers, loaders, strict=True)
        yield from lockstep(stage, [loaded(sampler.track(loader)) for sampler, loader in tracked])
        state = samplers[0].state_dict()


def torch_anew(job: Job) -> Iterator[Step]:
    """No state: every stage begins the epoch."""
    from torch.utils.data import DataLoader, DistributedSampler

    data: Any = range(job.num_samples)
    for stage in job.stages:
        samplers: list[Any] = [
            DistributedSampler(data, stage.world_size, rank, shuffle=True, seed=SEED)
            for rank in range(stage.world_size)
        ]
        batch = stage.rank_batch_size
        loaders = [DataLoader[Any](data, batch, sampler=sampler) for sampler in samplers]
        yield from lockstep(stage, map(loaded, loaders))


def torch_skipping(job: Job) -> Iterator[Step]:
    """No state: the job itself counts samples, and each rank skips its part of them."""
    from torch.utils.data import DataLoader, DistributedSampler

    data: Any = range(job.num_samples)
    taken = 0
    for stage in job.stages:
        samplers: list[Any] = [
            DistributedSampler(data, stage.world_size, rank, shuffle=True, seed=SEED)
            for rank in range(stage.world_size)
        ]
        skip, batch = taken // stage.world_size, stage.rank_batch_size
        rests: list[Any] = [list(sampler)[skip:] for sampler in samplers]
        loaders = [DataLoader[Any](data, batch, sampler=rest) for rest in rests]
        for step in lockstep(stage, map(loaded, loaders)):
            taken += sum(map(len, step.samples))
            yield step


def torch_elastic(job: Job) -> Iterator[Step]:
    """The start index is the number of samples that were taken."""
    from torch.distributed.elastic.utils.data.elastic_distributed_sampler import (
        ElasticDistributedSampler,
    )
    from torch.utils.data import DataLoader

    data: Any = range(job.num_samples)
    taken = 0
    for stage in job.stages:
        samplers: list[Any] = [
            ElasticDistributedSampler(data, stage.world_size, rank, start_index=taken)
            for rank in range(stage.world_size)
        ]
        batch = stage.rank_batch_size
        loaders = [DataLoader[Any](data, batch, sampler=sampler) for sampler in samplers]
        for step in lockstep(stage, map(loaded, loaders)):
            taken += sum(map(len, step.samples))
            yield step


def torchdata(job: Job) -> Iterator[Step]:
    """Each rank loads the state of the same rank; a rank that is new, that of another."""
    stateful = import_module("torchdata.stateful_dataloader")
    sampler_module = import_module("torchdata.stateful_dataloader.sampler")
    data = range(job.num_samples)
    states: list[Any] = []
    for stage in job.stages:
        loaders = []
        for rank in range(stage.world_size):
            sampler = sampler_module.StatefulDistributedSampler(
                data, stage.world_size, rank, shuffle=True, seed=SEED
            )
            loader = stateful.StatefulDataLoader(data, stage.rank_batch_size, sampler=sampler)
            if states:
                loader.load_state_dict(states[rank % len(states)])
            loaders.append(loader)
        yield from lockstep(stage, map(loaded, loaders))
        states = [loader.state_dict() for loader in loaders]


def torchft(job: Job) -> Iterator[Step]:
    """Each replica group keeps its own loader and state; one that is gone leaves its part unread.

    The number of replica groups is the largest that the job will have.
    """
    stateful = import_module("torchdata.stateful_dataloader")
    sampler_class = import_module("torchft.data").DistributedSampler
    data = range(job.num_samples)
    groups = max(stage.world_size for stage in job.stages)
    states: dict[int, Any] = {}
    for stage in job.stages:
        loaders = []
        for group in range(stage.world_size):
            sampler = sampler_class(
                data, group, groups, group_rank=0, num_replicas=1, shuffle=True, seed=SEED
            )
            loader = stateful.StatefulDataLoader(data, stage.rank_batch_size, sampler=sampler)
            if group in states:
                loader.load_state_dict(states[group])
            loaders.append(loader)
        yield from lockstep(stage, map(loaded, loaders))
        states |= {group: loader.state_dict() for group, loader in enumerate(loaders)}


def dlrover(job: Job) -> Iterator[Step]:
    """The step goes on counting in the next stage, as in DLRover's own examples."""
    from torch.utils.data import DataLoader

    sampler_class = import_module("dlrover.trainer.torch.elastic.sampler").ElasticDistributedSampler
    data: Any = range(job.num_samples)
    state, taken = None, 0
    for stage in job.stages:
        samplers = [
            sampler_class(data, stage.world_size, rank, shuffle=True, seed=SEED)
            for rank in range(stage.world_size)
        ]
        for sampler in samplers:
            if state:
                sampler.load_state_dict(state)
            sampler.set_epoch(0)
        batch = stage.rank_batch_size
        loaders = [DataLoader[Any](data, batch, sampler=sampler) for sampler in samplers]
        for step in lockstep(stage, map(loaded, loaders)):
            taken += 1
            yield step
        state = samplers[0].state_dict(taken, batch)


def horovod(job: Job) -> Iterator[Step]:
    """Its sampler alone, recording every batch; it is told the rank and size that it asks for."""
    from torch.utils.data import DataLoader

    package = importlib.util.find_spec("horovod")
    assert package is not None and package.origin is not None
    asked = [0, 1]
    core: Any = ModuleType("horovod.torch.mpi_ops")
    core.rank, core.size = lambda: asked[0], lambda: asked[1]
    sys.modules |= {"horovod.torch": ModuleType("horovod.torch"), core.__name__: core}
    sampler_class = runpy.run_path(
        str(Path(package.origin).parent / "torch" / "elastic" / "sampler.py")
    )["ElasticSampler"]
    data: Any = range(job.num_samples)
    state = None
    for stage in job.stages:
        samplers = []
        for rank in range(stage.world_size):
            asked[:] = rank, stage.world_size
            samplers.append(sampler_class(data, shuffle=True, seed=SEED))
            if state:
                samplers[-1].load_state_dict(state)
        batch = stage.rank_batch_size
        loaders = [DataLoader[Any](data, batch, sampler=sampler) for sampler in samplers]
        for number, step in enumerate(lockstep(stage, map(loaded, loaders))):
            yield step
            for sampler, samples in zip(samplers, step.samples, strict=True):
                sampler.record_batch(number, len(samples))
        state = samplers[0].state_dict()


def accelerate(job: Job) -> Iterator[Step]:
    """`skip_first_batches` with the number of batches that each process had."""
    yield from _accelerate(job, split_batches=False)


def accelerate_split(job: Job) -> Iterator[Step]:
    """The same, with `split_batches=True`: the loader's batch size is the global one."""
    yield from _accelerate(job, split_batches=True)


def _accelerate(job: Job, *, split_batches: bool) -> Iterator[Step]:
    from torch.utils.data import DataLoader

    data_loader = import_module("accelerate.data_loader")
    data: Any = range(job.num_samples)
    taken = 0
    for stage in job.stages:
        batch = stage.global_batch_size if split_batches else stage.rank_batch_size
        loaders = []
        for rank in range(stage.world_size):
            loader = data_loader.prepare_data_loader(
                DataLoader[Any](data, batch, shuffle=True),
                num_processes=stage.world_size,
                process_index=rank,
                split_batches=split_batches,
                use_seedable_sampler=True,
                data_seed=SEED,
            )
            loaders.append(data_loader.skip_first_batches(loader, taken) if taken else loader)
        for step in lockstep(stage, map(loaded, loaders)):
            taken += 1
            yield step


def grain_elastic(job: Job) -> Iterator[Step]:
    """The state of any shard restores all."""
    grain = import_module("grain")
    elastic_iterator = import_module("grain.experimental").ElasticIterator
    state = None
    for stage in job.stages:
        ranks = [
            elastic_iterator(
                grain.MapDataset.range(job.num_samples).shuffle(seed=SEED),
                stage.global_batch_size,
                grain.sharding.ShardOptions(rank, stage.world_size),
            )
            for rank in range(stage.world_size)
        ]
        if state:
            for rank in ranks:
                rank.set_state(state)
        yield from lockstep(stage, [loaded(iter(rank)) for rank in ranks])
        state = ranks[0].get_state()


def grain_loader(job: Job) -> Iterator[Step]:
    """Each shard loads the state of the same shard; one that is new, that of another."""
    grain = import_module("grain")
    source = import_module("grain.python").RangeDataSource(0, job.num_samples, 1)
    states: list[Any] = []
    for stage in job.stages:
        ranks = []
        for rank in range(stage.world_size):
            sampler = import_module("grain.samplers").IndexSampler(
                job.num_samples,
                shard_options=grain.sharding.ShardOptions(rank, stage.world_size),
                shuffle=True,
                seed=SEED,
                num_epochs=1,
            )
            batch = grain.transforms.Batch(stage.rank_batch_size, drop_remainder=False)
            loader = grain.DataLoader(data_source=source, sampler=sampler, operations=[batch])
            ranks.append(iter(loader))
            if states:
                ranks[-1].set_state(states[rank % len(states)])
        yield from lockstep(stage, map(loaded, ranks))
        states = [rank.get_state() for rank in ranks]


# Ranks that are processes.


class Refused(Exception):
    """What a rank that is a process has raised."""


Dealt = tuple[list[list[int]], Any]  # the batches of a rank, and its state after them


def in_processes(
    stage: Stage, rank: Callable[..., Dealt], *arguments: Any
) -> tuple[Iterator[Step], Any]:
    """Run all ranks of a stage, and return the steps and the state of rank 0."""
    context = get_context("spawn")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ends: list[Any] = []
    processes = []
    for number in range(stage.world_size):
        end, other = context.Pipe()
        process = context.Process(target=_rank, args=(other, number, port, stage, rank, arguments))
        process.start()
        other.close()
        ends.append(end)
        processes.append(process)
    try:
        dealt: dict[int, Dealt] = {}
        while len(dealt) < len(ends):
            waiting = [end for number, end in enumerate(ends) if number not in dealt]
            ready = connection.wait(waiting, PATIENCE)
            if not ready:
                raise TimeoutError(f"ranks did not end in {PATIENCE:.0f} s")
            for number, end in enumerate(ends):
                if end in ready:
                    error, dealt[number] = end.recv()
                    if error:
                        raise Refused(error)
    finally:
        for process in processes:
            process.kill()
            process.join()
    batches = [iter(dealt[number][0]) for number in range(stage.world_size)]
    return lockstep(stage, batches), dealt[0][1]


def _rank(
    end: Any, rank: int, port: int, stage: Stage, play: Callable[..., Dealt], arguments: Any
) -> None:
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(stage.world_size),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(stage.world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    try:
        end.send((None, play(stage, *arguments)))
    except Exception as error:
        end.send((described(error), None))
    connection.wait([end])  # some serve the others: stay until the job hangs up


def described(error: BaseException) -> str:
    """An error's type and the first line of its message."""
    if isinstance(error, Refused):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def adaptdl(job: Job) -> Iterator[Step]:
    """SIGTERM ends a stage, as AdaptDL's scheduler does it: a checkpoint, and exit."""
    for stage in job.stages:
        arguments = job.num_samples, str(job.directory)
        steps, _ = in_processes(stage, adaptdl_rank, *arguments)
        yield from steps


def adaptdl_rank(stage: Stage, num_samples: int, directory: str) -> Dealt:
    os.environ |= {
        "ADAPTDL_CHECKPOINT_PATH": directory,
        "ADAPTDL_MASTER_ADDR": os.environ["MASTER_ADDR"],
        "ADAPTDL_MASTER_PORT": os.environ["MASTER_PORT"],
        "ADAPTDL_NUM_REPLICAS": str(stage.world_size),
        "ADAPTDL_REPLICA_RANK": os.environ["RANK"],
        "ADAPTDL_NUM_RESTARTS": str(stage.number),
    }
    adaptdl = import_module("adaptdl.torch")
    adaptdl.init_process_group("gloo")
    data = range(num_samples)
    loader = adaptdl.AdaptiveDataLoader(data, batch_size=stage.global_batch_size, shuffle=True)
    batches: list[list[int]] = []
    try:
        for _ in adaptdl.remaining_epochs_until(1):
            for batch in loader:
                batches.append(batch.tolist())
                # What it is told in one step all ranks know in the next, and exit after that.
                if stage.steps is not None and len(batches) == stage.steps - 1:
                    os.kill(os.getpid(), signal.SIGTERM)
    except SystemExit:
        pass
    return batches, None


def streaming(job: Job) -> Iterator[Step]:
    """All ranks load the state of rank 0."""
    module = import_module("streaming")
    data = str(job.directory / "data")
    with module.MDSWriter(out=data, columns={"id": "int"}) as writer:
        for sample in range(job.num_samples):
            writer.write({"id": sample})
    state = None
    for stage in job.stages:
        steps, state = in_processes(stage, streaming_rank, data, state)
        yield from steps


def streaming_rank(stage: Stage, data: str, state: Any) -> Dealt:
    module = import_module("streaming")
    dataset = module.StreamingDataset(
        local=data, shuffle=True, shuffle_seed=SEED, batch_size=stage.rank_batch_size
    )
    loader = module.StreamingDataLoader(dataset, batch_size=stage.rank_batch_size)
    if state:
        loader.load_state_dict(state)
    batches = [batch["id"].tolist() for batch in islice(loader, stage.steps)]
    return batches, loader.state_dict()


def litdata(job: Job) -> Iterator[Step]:
    """All ranks load the state of rank 0."""
    module = import_module("litdata")
    data = str(job.directory / "data")
    size = 2**14
    module.optimize(
        fn=litdata_samples,
        inputs=[
            (start, min(start + size, job.num_samples)) for start in range(0, job.num_samples, size)
        ],
        output_dir=data,
        chunk_size=size,
        num_workers=1,
    )
    state = None
    for stage in job.stages:
        steps, state = in_processes(stage, litdata_rank, data, state)
        yield from steps


def litdata_samples(bounds: tuple[int, int]) -> Iterator[int]:
    yield from range(*bounds)


def litdata_rank(stage: Stage, data: str, state: Any) -> Dealt:
    import torch.distributed

    module = import_module("litdata")
    torch.distributed.init_process_group("gloo")
    dataset = module.StreamingDataset(data, shuffle=True, seed=SEED)
    loader = module.StreamingDataLoader(dataset, batch_size=stage.rank_batch_size)
    if state:
        loader.load_state_dict(state)
    batches = list(islice(loaded(loader), stage.steps))
    return batches, loader.state_dict()


PEERS = {
    "ours": Peer(elastic_sampler, "elastic-sampler", "elastic_sampler"),
    "torch, anew": Peer(torch_anew, "torch", "torch"),
    "torch, own count": Peer(torch_skipping, "torch", "torch"),
    "torch elastic": Peer(torch_elastic, "torch", "torch"),
    "torchdata": Peer(torchdata, "torchdata", "torchdata"),
    "Accelerate": Peer(accelerate, "accelerate", "accelerate"),
    "Accelerate, split": Peer(accelerate_split, "accelerate", "accelerate"),
    "DLRover": Peer(dlrover, "dlrover", "dlrover"),
    "Horovod, sampler": Peer(horovod, "horovod", "horovod"),
    "torchft": Peer(torchft, "torchft", "torchft"),
    "Grain, elastic": Peer(grain_elastic, "grain", "grain", tail="drop"),
    "Grain, loader": Peer(grain_loader, "grain", "grain"),
    "AdaptDL": Peer(adaptdl, "adaptdl", "adaptdl"),
    "Streaming": Peer(streaming, "mosaicml-streaming", "streaming"),
    "LitData": Peer(litdata, "litdata", "litdata", tail="drop"),
}
