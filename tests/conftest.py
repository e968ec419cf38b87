"""What every test gets: a process that no launcher has started."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import HealthCheck, settings

# No timed assertion: machines are shared and noisy. With CI set, Hypothesis brings such a profile.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("patient")

LAUNCHERS = re.compile(
    "(AWS_BATCH|ELASTIC_SAMPLER|FLUX|GROUP|HOROVOD|HYDI|I_MPI|JSM_NAMESPACE|LOCAL|MASTER|MPI|MS|"
    "MV2|OMPI|PADDLE|PALS|PET|PMIX?|PRTE|RANK|ROLE|SLURM|SM|TORCHELASTIC|TPU)_|(NODE_)?RANK$|"
    "WORLD_SIZE$|JOB_COMPLETION_INDEX|TF_CONFIG"
)


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the variables of an outer job, the switches of the tests themselves apart."""
    for name in list(os.environ):
        if LAUNCHERS.match(name) and name != "ELASTIC_SAMPLER_ENGINES":
            monkeypatch.delenv(name)
