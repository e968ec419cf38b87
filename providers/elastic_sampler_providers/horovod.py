"""Horovod: the library when it is initialised, else `HOROVOD_RANK` and `HOROVOD_SIZE`.

Reads: `rank()` and `size()` of whichever binding was imported and initialised, as in Horovod
0.28. They change inside a live process when an elastic job is resized. Else the pair, set by
`horovodrun` with Gloo; with MPI the variables are the MPI's. Imports and initialises nothing.

Source: https://horovod.readthedocs.io/en/stable/api.html
"""

from __future__ import annotations

import sys

from elastic_sampler import Nearness, World, hookimpl

BINDINGS = ("horovod.torch", "horovod.tensorflow", "horovod.mxnet")
"""Those of Keras and Spark import one of these."""


@hookimpl
def elastic_sampler_world() -> World | None:
    """Horovod's rank and size, else those of its launcher."""
    for name in BINDINGS:
        horovod = sys.modules.get(name)
        if horovod is not None and horovod.is_initialized():
            return World(horovod.rank(), horovod.size(), name, Nearness.LIVE)
    return World.from_variables("HOROVOD_RANK", "HOROVOD_SIZE", nearness=Nearness.MPI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["horovod (if initialised)", "HOROVOD_RANK", "HOROVOD_SIZE"]
