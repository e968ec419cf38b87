"""The providers, in every recorded environment, in synthetic and in fuzzed ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_sampler import (
    ElasticDistributedSampler,
    ElasticSamplerError,
    Nearness,
    NoAnswerError,
    World,
    WorldConflictError,
    WorldError,
    WorldRefusedError,
    plugins,
)

ENVIRONMENTS = Path(__file__).parent / "environments"

# Whose answer is believed. What `synthetic` holds is made up from documentation and source.
WINNERS = {
    "accelerate-launch-cpu-1": "nobody",
    "horovodrun-gloo-n3": "horovod",
    "lightning-fabric-2": "environment",
    "mpich-in-sbatch": "pmi",
    "mpichfork-in-sbatch": "pmi",
    "mpiexec-intelmpi": "pmi",
    "mpiexec-mpich": "pmi",
    "mpiexec-mpich4": "pmi",
    "mpiexec-openmpi4": "openmpi",
    "mpiexec-openmpi5": "openmpi",
    "msrun-2": "mindspore",
    "paddle-launch-2": "paddle",
    "ray-train-elastic-generations": "environment",
    "ray-train-plain-2": "nobody",  # only the live context knows
    "ray-train-torch-2": "environment",
    "salloc-interactive-step": "nobody",
    "salloc-interactive-step-srun": "slurm",
    "salloc-shell-not-launched": "nobody",
    "salloc-srun-n2-of-4": "slurm",
    "sbatch-shell-not-launched": "nobody",
    "sbatch-srun-n4": "slurm",
    "slurm-array-2": "slurm",
    "srun-het-1+2": "slurm",
    "srun-n3-N2-uneven": "slurm",
    "srun-n4-N2": "slurm",
    "srun-n4-N2-cyclic": "slurm",
    "srun-n4-pty-shell": "slurm",
    "srun-pmi2-n4": "pmi",
    "srun-pmix-n3": "slurm",
    "srun-preserve-env-n2-of-4": "slurm",
    "srun-pty-shell": "slurm",
    "torchrun-2nodes-x2": "environment",
    "torchrun-elastic-generations": "environment",
    "torchrun-in-sbatch": "environment",
    "torchrun-in-srun": "environment",
    "torchrun-n2-virtual-local-rank": "environment",
    "torchrun-n3": "environment",
    "torchrun-static-2+1": "environment",
    "synthetic/ascend-rank-table-2": "mindspore",
    "synthetic/aws-batch-multi-node-2": "nobody",
    "synthetic/azureml-pytorch-2x2": "environment",
    "synthetic/composer-2": "environment",
    "synthetic/deepspeed-2x2": "environment",
    "synthetic/flux-batch-script": "nobody",
    "synthetic/flux-run-n3-no-pmi": "flux",
    "synthetic/flux-run-n4-N2": "pmi",
    "synthetic/jsrun-launch-node": "nobody",
    "synthetic/jsrun-n4": "jsrun",
    "synthetic/kubeflow-pytorchjob-v1-2": "environment",
    "synthetic/kubeflow-trainer-v2-2": "nobody",
    "synthetic/kubernetes-indexed-job-2": "nobody",
    "synthetic/mvapich2-hydra-n3": "mvapich2",
    "synthetic/mvapich2-mpirun-rsh-n3": "mvapich2",
    "synthetic/pai-dlc-2": "environment",
    "synthetic/pals-mpiexec-n4-ppn2": "pals",
    "synthetic/sagemaker-2-hosts": "nobody",
    "synthetic/torch-env-by-hand-2": "environment",
    "synthetic/torch-env-by-hand-in-srun-n1": "environment",
    "synthetic/torchrun-in-flux-n1": "environment",
    "synthetic/torchrun-in-kubeflow-2x2": "environment",
    "synthetic/tpu-gke-2-hosts": "nobody",
}
REFUSED = {
    ("lightning-fabric-2", 0): "WORLD_SIZE='2' without RANK",
    ("lightning-fabric-2", 1): "WORLD_SIZE='2' without RANK",
    ("msrun-2", 0): "MS_ROLE=MS_SCHED: this process serves the workers",
}
"""Processes whose variables must not be believed, by their number in the recording."""


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """These variables, and of others only what a process needs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with patch.dict(os.environ, {**kept, **variables}, clear=True):
        yield


def recorded() -> list[Any]:
    """A parameter set per environment: its name, the truth, and the variables of each process."""
    found = []
    for path in sorted(ENVIRONMENTS.rglob("*.json")):
        name = path.relative_to(ENVIRONMENTS).with_suffix("").as_posix()
        content = json.loads(path.read_text())
        for number, part in enumerate(content.get("generations", [content])):
            # Ray's recordings also hold what its context said: no variable.
            ranks = [
                {k: v for k, v in rank.items() if k != "ray_context"} for rank in part["ranks"]
            ]
            found.append(pytest.param(name, part["world_size"], ranks, id=f"{name}{'+' * number}"))
    return found


def test_the_table_knows_every_environment() -> None:
    assert set(WINNERS) == {environment.values[0] for environment in recorded()}


@pytest.mark.parametrize(("name", "size", "ranks"), recorded())
def test_every_rank_of_every_environment_gets_its_world_or_the_refusal(
    name: str, size: int, ranks: list[dict[str, str]]
) -> None:
    worlds, winners = [], set()
    for number, variables in enumerate(ranks):
        with environment(variables):
            if told := REFUSED.get((name, number)):
                with pytest.raises(WorldRefusedError, match=f"{WINNERS[name]}: .*{told}"):
                    World.detect()
                continue
            worlds.append(World.detect())
            believed = plugins.believed(plugins.answers())
            winners.add("nobody" if believed is None else believed.provider)

    if worlds:
        assert {WINNERS[name]} == winners
    if winners == {"nobody"} or size == 1:
        assert all(World(0, 1) == world for world in worlds)
        assert ("nobody" in winners) == ("no provider answered" in worlds[0].source)
    else:
        expected = [World(rank, size) for rank in range(size)]
        refused = sum(name == refused for refused, _ in REFUSED)
        assert expected[: len(ranks) - refused] == sorted(worlds, key=lambda world: world.rank)


def detect(**variables: str) -> World:
    with environment(variables):
        return World.detect()


def test_local_rank_is_never_a_rank() -> None:
    assert World(0, 1) == detect(LOCAL_RANK="1")
    assert World(0, 1) == detect(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    assert World(4, 8) == detect(RANK="4", LOCAL_RANK="0", WORLD_SIZE="8")


PAIRS = [
    ("ELASTIC_SAMPLER_RANK", "ELASTIC_SAMPLER_WORLD_SIZE", Nearness.EXPLICIT),
    ("RANK", "WORLD_SIZE", Nearness.HINT),
    ("HOROVOD_RANK", "HOROVOD_SIZE", Nearness.MPI),
    ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", Nearness.MPI),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", Nearness.MPI),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", Nearness.MPI),
    ("PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", Nearness.MPI),
    ("RANK_ID", "RANK_SIZE", Nearness.MPI),
    ("PMI_RANK", "PMI_SIZE", Nearness.PMI),
    ("FLUX_TASK_RANK", "FLUX_JOB_SIZE", Nearness.SCHEDULER),
]
"""Pairs that count whatever else is set. Slurm's needs a step, that of PALS its rank."""


@pytest.mark.parametrize(("rank", "size", "nearness"), PAIRS)
def test_each_pair_is_as_near_as_the_launcher_that_sets_it(
    rank: str, size: str, nearness: Nearness
) -> None:
    world = detect(**{rank: "1", size: "2"})
    assert (World(1, 2), nearness) == (world, world.nearness)
    assert f"{rank}=1, {size}=2" == world.source


def test_with_local_rank_it_is_a_launcher_of_processes() -> None:
    torch = {"RANK": "1", "WORLD_SIZE": "2"}
    assert Nearness.LAUNCHER is detect(**torch, LOCAL_RANK="0").nearness
    assert Nearness.HINT is detect(**torch, LOCAL_RANK="").nearness


@pytest.mark.parametrize(("rank", "size", "nearness"), PAIRS)
def test_half_of_any_pair_is_refused(rank: str, size: str, nearness: Nearness) -> None:
    for half, other in ((rank, size), (size, rank)):
        with pytest.raises(WorldRefusedError, match=f"{half}='1' without {other}") as refused:
            detect(**{half: "1"})
        assert nearness is refused.value.nearness


def test_half_a_pair_is_never_a_silent_rank_0_of_1() -> None:
    for variables, told in (
        ({"RANK": "3"}, "RANK='3' without WORLD_SIZE"),
        ({"WORLD_SIZE": "4"}, "WORLD_SIZE='4' without RANK"),
        ({"PMI_SIZE": "8"}, "PMI_SIZE='8' without PMI_RANK"),
        ({"OMPI_COMM_WORLD_SIZE": "8"}, "OMPI_COMM_WORLD_SIZE='8' without OMPI_COMM_WORLD_RANK"),
        ({"ELASTIC_SAMPLER_RANK": "0"}, "ELASTIC_SAMPLER_RANK='0' without ELASTIC_SAMPLER_WORLD"),
    ):
        cure = "or set ELASTIC_SAMPLER_PROVIDER to the name of the provider to believe"
        with pytest.raises(WorldRefusedError, match=f"{told}.*{cure}"):
            detect(**variables)


def test_what_comes_without_a_size_by_design_is_never_a_world() -> None:
    lone = {"PMIX_RANK": "2", "JOB_COMPLETION_INDEX": "3", "TPU_WORKER_ID": "1"}
    lone |= {"SLURM_ARRAY_TASK_ID": "4", "MASTER_ADDR": "127.0.0.1", "SLURM_JOB_ID": "9"}
    assert World(0, 1) == detect(**lone)


STEP = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}


def test_a_slurm_step_is_the_outermost_evidence() -> None:
    allocation = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8", "SLURM_NPROCS": "8"}
    world = detect(**STEP, **allocation)
    assert (World(1, 2), Nearness.SCHEDULER) == (world, world.nearness)
    assert World(3, 4) == detect(**STEP, PMI_RANK="3", PMI_SIZE="4")
    assert World(0, 1) == detect(**STEP, RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    with pytest.raises(WorldConflictError, match=r"slurm says rank 1 of 2 .* environment says"):
        detect(**STEP, RANK="0", WORLD_SIZE="4")


def test_no_part_of_a_slurm_step_is_a_silent_rank_0_of_1() -> None:
    for variables, told in (
        ({"SLURM_STEP_ID": "0"}, "SLURM_STEP_ID=0 without SLURM_PROCID and SLURM_STEP_NUM_TASKS"),
        ({"SLURM_STEP_NUM_TASKS": "2"}, "SLURM_STEP_ID must be a plain decimal .*, got ''"),
        ({"SLURM_PROCID": "3", "SLURM_NTASKS_PER_NODE": "4"}, "SLURM_PROCID above 0 .*, got ''"),
        ({**STEP, "SLURM_STEP_ID": "batch"}, "SLURM_STEP_ID must be .*, got 'batch'"),
        ({**STEP, "SLURM_PROCID": "2"}, r"SLURM_PROCID must be in \[0, SLURM_STEP_NUM_TASKS\)"),
        ({**STEP, "SLURM_PROCID": ""}, "SLURM_STEP_NUM_TASKS='2' without SLURM_PROCID"),
    ):
        with pytest.raises(WorldRefusedError, match=f"slurm: .*{told}"):
            detect(**variables)


def test_a_step_of_one_task_is_only_the_frame_of_what_runs_in_it() -> None:
    frame = {"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}
    world = detect(**frame)
    assert (World(0, 1), Nearness.SCHEDULER) == (world, world.nearness)
    assert World(1, 2) == detect(**frame, RANK="1", WORLD_SIZE="2")
    assert World(1, 2) == detect(**frame, FLUX_TASK_RANK="1", FLUX_JOB_SIZE="2")
    with pytest.raises(WorldRefusedError, match="WORLD_SIZE='2' without RANK"):
        detect(**frame, WORLD_SIZE="2")


def test_a_lone_process_is_no_reason_to_ignore_half_a_pair_further_out() -> None:
    for lone in ({"PMI_RANK": "0", "PMI_SIZE": "1"}, {"RANK_ID": "0", "RANK_SIZE": "1"}):
        with pytest.raises(WorldRefusedError, match=r"environment: .*WORLD_SIZE='2' without RANK"):
            detect(**lone, WORLD_SIZE="2")
    launcher = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    assert World(0, 1) == detect(**launcher, PMI_SIZE="2")


def test_the_size_of_another_launcher_is_not_half_a_pair_of_pals() -> None:
    assert World(1, 2) == detect(PMI_RANK="1", PMI_SIZE="2")
    assert World(1, 2) == detect(PALS_RANKID="1", PMI_SIZE="2", PMI_RANK="1")
    with pytest.raises(WorldRefusedError, match="PALS_RANKID='1' without PMI_SIZE"):
        detect(PALS_RANKID="1", PALS_LOCAL_SIZE="2")
    with pytest.raises(WorldConflictError, match=r"pals says rank 0 of 2 .* pmi says rank 1 of 2"):
        detect(PALS_RANKID="0", PMI_SIZE="2", PMI_RANK="1")


def test_processes_of_mindspore_that_are_no_workers_are_refused() -> None:
    pair = {"RANK_ID": "0", "RANK_SIZE": "2"}
    assert World(0, 2) == detect(**pair, MS_ROLE="MS_WORKER")
    for role in ("MS_SCHED", "MS_PSERVER"):
        with pytest.raises(WorldRefusedError, match=f"MS_ROLE={role}: this process serves"):
            detect(**pair, MS_ROLE=role)
    with pytest.raises(WorldRefusedError, match="MS_ROLE=MS_WORKER without RANK_ID and RANK_SIZE"):
        detect(MS_ROLE="MS_WORKER", MS_WORKER_NUM="2")


def test_a_launcher_of_processes_wins_over_mpi_also_at_size_1() -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert World(0, 1) == detect(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", **mpi)
    assert World(2, 8) == detect(RANK="2", WORLD_SIZE="8", LOCAL_RANK="0", **mpi)


def test_a_hint_must_agree_with_mpi() -> None:
    mpi = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    assert World(1, 4) == detect(RANK="1", WORLD_SIZE="4", **mpi)
    assert Nearness.MPI is detect(RANK="1", WORLD_SIZE="4", **mpi).nearness
    with pytest.raises(WorldConflictError, match=r"rank 1 of 4 .* but .* rank 0 of 2"):
        detect(RANK="0", WORLD_SIZE="2", **mpi)


def test_an_mpi_of_size_1_beside_a_larger_answer_is_refused() -> None:
    lone = {"PMI_RANK": "0", "PMI_SIZE": "1"}
    assert World(0, 1) == detect(**lone)
    with pytest.raises(
        WorldConflictError,
        match=r"pmi says rank 0 of 1.*, but environment .*: the first is one process",
    ):
        detect(RANK="1", WORLD_SIZE="2", **lone)
    with pytest.raises(
        WorldConflictError, match=r"OMPI_COMM_WORLD_SIZE=1; .*, but pmi says rank 0"
    ):
        detect(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="1", PMI_RANK="0", PMI_SIZE="2")


def test_a_whole_open_mpi_pair_is_not_spoilt_by_half_of_a_pmi_pair() -> None:
    assert World(1, 2) == detect(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2", PMI_SIZE="9")


def test_explicit_variables_settle_everything() -> None:
    explicit = {"ELASTIC_SAMPLER_RANK": "5", "ELASTIC_SAMPLER_WORLD_SIZE": "6"}
    for others in (
        {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"},
        {"RANK": "0"},
        {"PMI_RANK": "0", "PMI_SIZE": "x"},
    ):
        assert World(5, 6) == detect(**explicit, **others)


def test_explicit_variables_settle_what_a_live_group_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for live in (group(0, 2), group(-1, -1)):
        monkeypatch.setitem(sys.modules, "torch.distributed", live)
        world = detect(ELASTIC_SAMPLER_RANK="5", ELASTIC_SAMPLER_WORLD_SIZE="6")
        assert (World(5, 6), Nearness.EXPLICIT) == (world, world.nearness)


def test_a_refusal_further_out_is_not_raised_and_one_nearer_is() -> None:
    launcher = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    assert World(1, 4) == detect(PMI_SIZE="2", **launcher)
    with pytest.raises(WorldRefusedError):
        detect(WORLD_SIZE="4", LOCAL_RANK="1", PMI_RANK="0", PMI_SIZE="2")


# Live runtimes. Real ones are in tests/integration; what they cannot be made to say is played here.


def group(rank: int, size: int, initialised: bool = True) -> Any:
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialised,
        get_rank=lambda: rank,
        get_world_size=lambda: size,
    )


def mpi(rank: int, size: int, initialised: bool = True, finalised: bool = False) -> Any:
    comm = SimpleNamespace(Get_rank=lambda: rank, Get_size=lambda: size)
    return SimpleNamespace(
        Is_initialized=lambda: initialised, Is_finalized=lambda: finalised, COMM_WORLD=comm
    )


def test_a_live_group_wins_over_stale_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", group(0, 8))
    for variables in (
        {},
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "0"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"WORLD_SIZE": "1"},
    ):
        world = detect(**variables)
        assert World(0, 8) == world
        assert Nearness.LIVE is world.nearness


def test_a_group_that_this_process_is_outside_of_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", group(-1, -1))
    with pytest.raises(WorldRefusedError, match="outside of the default group"):
        detect(RANK="3", WORLD_SIZE="4", LOCAL_RANK="0")


def test_torch_without_distributed_support_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    # All that such a build has of it.
    monkeypatch.setitem(sys.modules, "torch.distributed", SimpleNamespace(is_available=bool))
    assert World(0, 1) == detect()


def test_a_live_mpi_wins_over_stale_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi(2, 3))
    for variables in ({}, {"PMI_RANK": "0", "PMI_SIZE": "4"}, {"OMPI_COMM_WORLD_SIZE": "4"}):
        world = detect(**variables)
        assert (World(2, 3), Nearness.LIVE) == (world, world.nearness)


def test_two_live_runtimes_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", group(1, 4))
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi(1, 4))
    assert World(1, 4) == detect()
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi(0, 2))
    with pytest.raises(WorldConflictError, match="torch_distributed says rank 1 of 4"):
        detect()


def test_runtimes_that_are_not_initialised_are_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", group(3, 4, initialised=False))
    for lone in (mpi(1, 2, False), mpi(1, 2, True, True), mpi(0, 1)):
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", lone)
        assert World(0, 1) == detect()
        assert World(1, 3) == detect(PMI_RANK="1", PMI_SIZE="3")
    with environment({}), pytest.raises(NoAnswerError, match=r"it looked at torch\.distributed"):
        iter(ElasticDistributedSampler(5, world="torch_distributed"))


def ray(said: dict[str, int] | None, error: type[Exception] = RuntimeError) -> Any:
    """Ray's module on the driver, or in a rank whose context said this."""

    def get_context() -> Any:
        if said is None:
            raise error("outside of a Ray Train training function")
        return SimpleNamespace(**{name: lambda v=value: v for name, value in said.items()})

    return SimpleNamespace(get_context=get_context)


def test_only_the_context_knows_the_rank_under_a_ray_trainer_without_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = json.loads((ENVIRONMENTS / "ray-train-plain-2.json").read_text())
    for rank, said in enumerate(recording["ray_context"]):
        monkeypatch.setitem(sys.modules, "ray.train", ray(said))
        world = detect(**recording["ranks"][rank])
        assert (World(rank, 2), Nearness.LIVE) == (world, world.nearness)
    monkeypatch.setitem(sys.modules, "torch.distributed", group(0, 4))
    with pytest.raises(WorldConflictError, match="ray_train says rank 1 of 2"):
        detect()


def test_ray_is_no_evidence_on_the_driver_nor_before_its_second_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class TrainContext:
        """As before V2: it answers 0 of 1 outside of a job, with a warning."""

        __module__ = "ray.train.context"

    first = SimpleNamespace(get_context=TrainContext)
    for played in (ray(None), ray(None, DeprecationWarning), first):
        monkeypatch.setitem(sys.modules, "ray.train", played)
        assert World(1, 2) == detect(RANK="1", WORLD_SIZE="2")


def test_a_live_horovod_wins_over_its_launchers_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stale = {"HOROVOD_RANK": "3", "HOROVOD_SIZE": "4"}
    for initialised, expected in ((True, World(1, 3)), (False, World(3, 4))):
        binding = SimpleNamespace(
            is_initialized=lambda said=initialised: said, rank=lambda: 1, size=lambda: 3
        )
        monkeypatch.setitem(sys.modules, "horovod.tensorflow", binding)
        assert expected == detect(**stale)


def test_jax_is_asked_only_once_it_is_initialised_and_its_backend_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def state(client: object) -> Any:
        said = SimpleNamespace(client=client, process_id=1, num_processes=4)
        return SimpleNamespace(global_state=said)

    monkeypatch.setitem(sys.modules, "jax._src.distributed", state(None))
    assert World(0, 1) == detect()
    monkeypatch.setitem(sys.modules, "jax._src.distributed", state(object()))
    world = detect(SLURM_PROCID="0", SLURM_NTASKS="8")
    assert (World(1, 4), Nearness.LIVE) == (world, world.nearness)

    # A JAX that keeps its state elsewhere.
    monkeypatch.delitem(sys.modules, "jax._src.distributed")
    public = SimpleNamespace(process_index=lambda: 2, process_count=lambda: 3)
    monkeypatch.setitem(sys.modules, "jax", public)
    for initialised, expected in ((False, World(0, 1)), (True, World(2, 3))):
        module = SimpleNamespace(is_initialized=lambda said=initialised: said)
        monkeypatch.setitem(sys.modules, "jax.distributed", module)
        assert expected == detect()


def test_a_live_mpi_that_is_not_believed_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    for played, told in (
        (mpi(0, 1), "COMM_WORLD has one process, which proves nothing"),
        (mpi(0, 2, initialised=False), "MPI is not initialised, or finalised already"),
        (mpi(0, 2, finalised=True), "MPI is not initialised, or finalised already"),
        (mpi(0, 2), ""),
    ):
        monkeypatch.setitem(sys.modules, "mpi4py.MPI", played)
        (answer,) = plugins.answers("mpi4py")
        assert told in " ".join(plugins.notes(answer))
        assert (told == "") == (plugins.notes(answer) == ())


# Fuzzed environments.

KNOWN = sorted(
    {name for answer in plugins.answers() for name in answer.reads if name.isupper()}
    | {name for case in recorded() for rank in case.values[2] for name in rank}
)
"""Every variable that a provider reads, or that a launcher was seen to set."""

values = st.one_of(
    st.integers(0, 5).map(str),
    st.sampled_from(["", " 1", "-1", "1.5", "٣", "9" * 40, "None", "é", "0x2", "\udcff"]),
    st.sampled_from(["4294967290", "MS_SCHED", "MS_WORKER", "99999999999999999999", "1_0"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
)
read = [name for pair in PAIRS for name in pair[:2]] + ["PALS_RANKID", "LOCAL_RANK", "MS_ROLE"]
slurms = [*STEP, "SLURM_NTASKS", "SLURM_JOB_ID"]
names = st.sampled_from(read) | st.sampled_from(slurms) | st.sampled_from(KNOWN)
processes = st.sampled_from([rank for case in recorded() for rank in case.values[2]])


def number(value: str | None) -> int | None:
    """A plain decimal integer that fits in 64 bits, None for anything else."""
    plain = value is not None and value.isascii() and value.isdigit() and len(value) <= 18
    return int(value) if plain and value is not None else None


def whole_pairs(variables: dict[str, str]) -> set[World]:
    """The worlds for which all evidence is there."""
    pairs = [pair[:2] for pair in PAIRS] + [("PALS_RANKID", "PMI_SIZE")]
    step = number(variables.get("SLURM_STEP_ID"))
    if step is not None and step < 0xFFFFFFF0:
        pairs.append(("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"))
    found = set()
    for names_of in pairs:
        rank, size = (number(variables.get(name)) for name in names_of)
        if rank is not None and size is not None and rank < size:
            found.add(World(rank, size))
    return found


def evidence(variables: dict[str, str]) -> list[str]:
    """The variables that are there and may not be passed over in silence."""
    step = number(variables.get("SLURM_STEP_ID"))
    special = step is not None and step >= 0xFFFFFFF0
    decisive = [name for pair in PAIRS for name in pair[:2]] + ["PALS_RANKID"]
    if not special:
        decisive += ["SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS"]
        decisive += ["SLURM_PROCID"] if variables.get("SLURM_PROCID", "").strip("0") else []
    return [name for name in decisive if variables.get(name)]


@settings(max_examples=500)
@given(st.just({}) | processes, st.dictionaries(names, values))
def test_any_environment_gives_a_world_that_a_whole_pair_supports_or_an_error_naming_a_variable(
    launched: dict[str, str], changed: dict[str, str]
) -> None:
    variables = {**launched, **changed}
    try:
        world = detect(**variables)
    except ElasticSamplerError as error:
        assert isinstance(error, WorldError)
        assert any(name in str(error) for name in variables)
        return
    if "no provider answered" in world.source:
        assert World(0, 1) == world
        assert [] == evidence(variables)
    else:
        assert world in whole_pairs(variables)


BENCH = Path(__file__).parents[1] / "bench" / "detection.py"


@pytest.mark.skipif(not BENCH.exists(), reason="the benchmark is in the checkout only")
def test_the_benchmark_of_detection_runs() -> None:
    ran = subprocess.run(
        [sys.executable, str(BENCH), "--rounds", "1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "World(rank=1, size=4, source='PMI_RANK=1, PMI_SIZE=4')" in ran.stdout
