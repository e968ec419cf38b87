"""One of eight processes of Megatron's parallel state; prints its world and share, as JSON.

usage: megatron_rank.py RANK DIRECTORY
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import torch.distributed as dist
from megatron.core import parallel_state

from elastic_sampler import ElasticDistributedSampler, World

if __name__ == "__main__":
    rank, directory = int(sys.argv[1]), sys.argv[2]
    dist.init_process_group(
        "gloo",
        init_method=f"file://{directory}/group",
        rank=rank,
        world_size=8,
        timeout=timedelta(seconds=60),
    )
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2, context_parallel_size=2)
    world = World.from_process_group(parallel_state.get_data_parallel_group())
    sampler = ElasticDistributedSampler(10, shuffle=False, world=world)
    print(json.dumps([world.rank, world.size, list(sampler)]))
    dist.destroy_process_group()
