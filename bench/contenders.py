"""Who is measured: each deals the shuffled indices of rank 0, as its own documentation shows.

What a contender imports is imported in its methods: only those that are installed are asked.
"""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import chain, islice
from typing import Any

BATCH = 256
"""Samples of one rank in a batch."""


class Contender:
    """Something that deals an epoch to ranks.

    Attributes:
        name: How tables and legends call it.
        package: The distribution that it comes with, None for the standard library.
        ours: Whether it is this package.
        lazy: Whether it builds nothing of the size of the data.
        ranks: Whether it divides the data between ranks.
        up_to: The largest number of samples that it is measured with.
        limit: How many indices are drawn from it at most.
    """

    name: str
    package: str | None = None
    ours = False
    lazy = False
    ranks = True
    up_to = 10**8
    limit = 10**6

    @property
    def version(self) -> str | None:
        """The installed version, None where it is not installed."""
        try:
            return version(self.package) if self.package else sys.version.split()[0]
        except PackageNotFoundError:
            return None

    def prepare(self) -> None:
        """Whatever must be done before anything is imported."""

    def epoch(self, num_samples: int, world_size: int) -> Iterable[int]:
        """The indices of rank 0."""
        raise NotImplementedError

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterable[int]:
        """What is left of them when the job has consumed so many places: by default, skip."""
        return islice(self.epoch(num_samples, world_size), position // world_size, None)

    def batches(self, num_samples: int, world_size: int) -> Any:
        """The same in batches, as a DataLoader takes them."""
        from torch.utils.data import BatchSampler

        indices: Any = self.epoch(num_samples, world_size)
        return BatchSampler(indices, BATCH, drop_last=False)


class Ours(Contender):
    name, package, ours, lazy, up_to = "ours", "elastic-sampler", True, True, 10**12

    def epoch(self, num_samples: int, world_size: int) -> Any:
        from elastic_sampler import ElasticDistributedSampler, World

        return ElasticDistributedSampler(num_samples, shuffle=True, world=World(0, world_size))

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterable[int]:
        sampler = self.epoch(num_samples, world_size)
        sampler.load_state_dict({**sampler.state_dict(), "position": position, "origin": 0})
        rest: Iterable[int] = sampler
        return rest

    def batches(self, num_samples: int, world_size: int) -> Any:
        from elastic_sampler import ElasticBatchSampler

        return ElasticBatchSampler(self.epoch(num_samples, world_size), BATCH * world_size)


class OursWithoutNumPy(Ours):
    name = "ours, no NumPy"

    def prepare(self) -> None:
        warnings.simplefilter("ignore")  # torch misses it, too
        sys.modules["numpy"] = None  # type: ignore[assignment]


class TorchDistributed(Contender):
    name, package = "torch DistributedSampler", "torch"

    def epoch(self, num_samples: int, world_size: int) -> Iterable[int]:
        from torch.utils.data import DistributedSampler

        data: Any = range(num_samples)
        return DistributedSampler(data, num_replicas=world_size, rank=0, shuffle=True)


class TorchRandom(Contender):
    name, package, ranks = "torch RandomSampler", "torch", False

    def epoch(self, num_samples: int, world_size: int) -> Iterable[int]:
        from torch.utils.data import RandomSampler

        return RandomSampler(range(num_samples))


class TorchData(Contender):
    name, package = "torchdata StatefulDistributedSampler", "torchdata"

    def epoch(self, num_samples: int, world_size: int) -> Any:
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        data = range(num_samples)
        return StatefulDistributedSampler(data, num_replicas=world_size, rank=0, shuffle=True)

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterable[int]:
        sampler = self.epoch(num_samples, world_size)
        sampler.load_state_dict({sampler._YIELDED: position // world_size})
        rest: Iterable[int] = sampler
        return rest


class Accelerate(Contender):
    name, package = "Accelerate BatchSamplerShard", "accelerate"

    def batches(self, num_samples: int, world_size: int) -> Any:
        from accelerate.data_loader import BatchSamplerShard, SeedableRandomSampler
        from torch.utils.data import BatchSampler

        indices = SeedableRandomSampler(range(num_samples), data_seed=0)
        whole = BatchSampler(indices, BATCH, drop_last=False)
        return BatchSamplerShard(whole, num_processes=world_size, process_index=0)

    def epoch(self, num_samples: int, world_size: int) -> Iterable[int]:
        return chain.from_iterable(self.batches(num_samples, world_size))

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterable[int]:
        from accelerate.data_loader import SkipBatchSampler

        batches = self.batches(num_samples, world_size)
        skipped = position // world_size // BATCH
        return chain.from_iterable(SkipBatchSampler(batches, skip_batches=skipped))


class GrainIndexSampler(Contender):
    # It divides the data between ranks before it shuffles, so a rank sees the same part each epoch.
    name, package, lazy, up_to, limit = "Grain IndexSampler", "grain", True, 10**12, 10**4

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterator[int]:
        from grain.samplers import IndexSampler
        from grain.sharding import ShardOptions

        shards = ShardOptions(shard_index=0, shard_count=world_size)
        sampler = IndexSampler(num_samples, shards, shuffle=True, num_epochs=1, seed=0)
        begin = position // world_size * world_size
        return (sampler[i].record_key for i in range(begin, num_samples, world_size))

    def epoch(self, num_samples: int, world_size: int) -> Iterator[int]:
        return self.rest(num_samples, world_size, 0)


class GrainShuffle(Contender):
    name, package, lazy, up_to, limit = "Grain MapDataset.shuffle", "grain", True, 10**12, 10**4

    def rest(self, num_samples: int, world_size: int, position: int) -> Iterator[int]:
        import grain

        mine = grain.MapDataset.range(num_samples).shuffle(seed=0)[0::world_size]
        return (mine[i] for i in range(position // world_size, len(mine)))

    def epoch(self, num_samples: int, world_size: int) -> Iterator[int]:
        return self.rest(num_samples, world_size, 0)


class ListShuffle(Contender):
    name, up_to = "list + random.shuffle", 10**7

    def epoch(self, num_samples: int, world_size: int) -> list[int]:
        indices = list(range(num_samples))
        random.Random(0).shuffle(indices)
        return indices[::world_size]


CONTENDERS: dict[str, Contender] = {
    contender.name: contender
    for contender in (
        Ours(),
        OursWithoutNumPy(),
        TorchDistributed(),
        TorchRandom(),
        TorchData(),
        Accelerate(),
        GrainIndexSampler(),
        GrainShuffle(),
        ListShuffle(),
    )
}

BASELINE = TorchDistributed.name
"""Whom ratios are relative to."""
