"""PaddlePaddle's launcher: `PADDLE_TRAINER_ID` and `PADDLE_TRAINERS_NUM`.

Reads: the pair, set by `python -m paddle.distributed.launch` in Paddle 2 and 3. `ParallelEnv`'s
`local_rank` is an alias of the global one, and not used.

Source: https://www.paddlepaddle.org.cn/documentation/docs/en/api/paddle/distributed/ParallelEnv_en.html
"""

from __future__ import annotations

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", nearness=Nearness.MPI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"]
