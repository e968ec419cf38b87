"""One rank under a real mpiexec: say which world is found, deal an epoch, log it.

usage: mpi_rank.py LOG_DIRECTORY MODE, where MODE says what the program does with mpi4py: "none",
"initialised", "before" (imported, MPI_Init still to come), "after" (MPI_Finalize is over).
"""

import sys
from pathlib import Path

from elastic_sampler import ElasticDistributedSampler, SampleLog

directory, mode = Path(sys.argv[1]), sys.argv[2]
if mode != "none":
    import mpi4py

    mpi4py.rc.initialize = mode != "before"
    from mpi4py import MPI

    if mode == "after":
        MPI.Finalize()

sampler = ElasticDistributedSampler(100, shuffle=True, seed=1)
world = sampler.world
with SampleLog(directory / f"{world.rank}.jsonl", world) as log:
    for epoch in sampler.epochs(2):
        for step, index in enumerate(sampler):
            log.write(epoch, step + 1000 * epoch, [index])
# To a file: mpiexec may mix the lines of the ranks.
said = f"{world.rank} of {world.size}: {world.source}"
(directory / f"{world.rank}.txt").write_text(said)
