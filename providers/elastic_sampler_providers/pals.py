"""PALS, mpiexec of HPE Cray systems: `PALS_RANKID` and `PMI_SIZE`.

Reads: `PALS_RANKID`, which marks the launcher (PALS 1); the size is PMI's, since there is
no PALS_SIZE. `PALS_LOCAL_SIZE` counts the processes of this node, and is no world size.

Source: https://github.com/flux-framework/flux-coral2/blob/main/src/shell/plugins/cray_pals.c
"""

from __future__ import annotations

import os

from elastic_sampler import Nearness, World, hookimpl


@hookimpl
def elastic_sampler_world() -> World | None:
    """PALS's rank of PMI's size, None without PALS_RANKID: PMI_SIZE alone is another's."""
    if not os.environ.get("PALS_RANKID"):
        return None
    return World.from_variables("PALS_RANKID", "PMI_SIZE", nearness=Nearness.PMI)


@hookimpl
def elastic_sampler_reads() -> list[str]:
    """What is looked at."""
    return ["PALS_RANKID", "PMI_SIZE"]
