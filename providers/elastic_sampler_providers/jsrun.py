"""jsrun of IBM's LSF: `JSM_NAMESPACE_RANK` and `JSM_NAMESPACE_SIZE`.

Reads: the pair, of the Job Step Manager 10, in every process that jsrun starts. The batch script on
the launch node has neither, and is one process. Spectrum MPI adds Open MPI's pair, which agrees.

Source: https://github.com/Lightning-AI/pytorch-lightning/blob/7f0c343/src/lightning/fabric/plugins/environments/lsf.py
"""

from __future__ import annotations

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """The pair, None if neither is set."""
    return World.from_variables("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", nearness=Nearness.MPI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"]
