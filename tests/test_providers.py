"""The four providers, in every recorded environment and in fuzzed ones."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
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
)

ENVIRONMENTS = Path(__file__).parent / "environments"

# Launchers whose providers are still to come, by what these will read. Until then nobody answers.
TO_COME = {
    "horovodrun-gloo-n3": "HOROVOD_RANK and HOROVOD_SIZE",
    "msrun-2": "RANK_ID and RANK_SIZE; the scheduler is to be refused",
    "paddle-launch-2": "PADDLE_TRAINER_ID and PADDLE_TRAINERS_NUM",
    "ray-train-plain-2": "only Ray's context knows",
    "salloc-interactive-step-srun": "a Slurm step",
    "salloc-srun-n2-of-4": "a Slurm step",
    "sbatch-srun-n4": "a Slurm step",
    "srun-het-1+2": "a Slurm step",
    "srun-n3-N2-uneven": "a Slurm step",
    "srun-n4-N2": "a Slurm step",
    "srun-n4-N2-cyclic": "a Slurm step",
    "srun-n4-pty-shell": "a Slurm step",
    "srun-pmix-n3": "a Slurm step",
    "srun-preserve-env-n2-of-4": "a Slurm step",
    "srun-pty-shell": "a Slurm step",
}


@contextmanager
def environment(variables: dict[str, str]) -> Iterator[None]:
    """These variables, and of others only what a process needs."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    with patch.dict(os.environ, {**kept, **variables}, clear=True):
        yield


def recorded() -> list[tuple[str, int, list[dict[str, str]]]]:
    found = []
    for path in sorted(ENVIRONMENTS.glob("*.json")):
        content = json.loads(path.read_text())
        for part in content.get("generations", [content]):
            # Ray's recordings also hold what its context said: no variable.
            ranks = [
                {k: v for k, v in rank.items() if k != "ray_context"} for rank in part["ranks"]
            ]
            found.append((path.stem, part["world_size"], ranks))
    return found


@pytest.mark.parametrize(("name", "size", "ranks"), recorded(), ids=lambda value: str(value)[:40])
def test_every_rank_of_every_recorded_environment_gets_its_world_or_the_refusal(
    name: str, size: int, ranks: list[dict[str, str]]
) -> None:
    worlds = []
    for number, variables in enumerate(ranks):
        with environment(variables):
            if name == "lightning-fabric-2" and "WORLD_SIZE" in variables:
                with pytest.raises(WorldRefusedError, match="'2' without RANK"):
                    World.detect()
                continue
            worlds.append(World.detect())
            if number and name not in TO_COME and size > 1:
                assert worlds[-1].source != worlds[0].source

    if name in TO_COME or name in ("lightning-fabric-2", "slurm-array-2") or size == 1:
        assert all(World(0, 1) == world for world in worlds)
        assert all("no provider answered" in world.source or size == 1 for world in worlds)
    else:
        assert [World(rank, size) for rank in range(size)] == sorted(
            worlds, key=lambda world: world.rank
        )


def detect(**variables: str) -> World:
    with environment(variables):
        return World.detect()


def test_local_rank_is_never_a_rank() -> None:
    assert World(0, 1) == detect(LOCAL_RANK="1")
    assert World(0, 1) == detect(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    assert World(4, 8) == detect(RANK="4", LOCAL_RANK="0", WORLD_SIZE="8")


def test_each_pair_is_as_near_as_the_launcher_that_sets_it() -> None:
    torch = {"RANK": "1", "WORLD_SIZE": "2"}
    assert Nearness.LAUNCHER is detect(**torch, LOCAL_RANK="0").nearness
    assert Nearness.HINT is detect(**torch, LOCAL_RANK="").nearness
    assert Nearness.MPI is detect(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2").nearness
    assert Nearness.PMI is detect(PMI_RANK="1", PMI_SIZE="2").nearness


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
    with pytest.raises(WorldConflictError, match="mpi says rank 0 of 1"):
        detect(RANK="1", WORLD_SIZE="2", **lone)
    with pytest.raises(WorldRefusedError, match=r"OMPI_COMM_WORLD_SIZE=1, but PMI_RANK=0"):
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


# Fuzzed environments.

PAIRS = [
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("ELASTIC_SAMPLER_RANK", "ELASTIC_SAMPLER_WORLD_SIZE"),
]
OTHERS = ["LOCAL_RANK", "PMIX_RANK", "SLURM_PROCID", "SLURM_NTASKS", "MASTER_ADDR", "NODE_RANK"]
values = st.one_of(
    st.integers(0, 5).map(str),
    st.sampled_from(["", " 1", "-1", "1.5", "٣", "9" * 40, "None", "é", "0x2", "\udcff"]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5),
)
names = st.sampled_from([name for pair in PAIRS for name in pair] + OTHERS)


@given(st.dictionaries(names, values))
def test_any_environment_gives_a_world_that_a_whole_pair_supports_or_an_error_naming_a_variable(
    variables: dict[str, str],
) -> None:
    try:
        world = detect(**variables)
    except ElasticSamplerError as error:
        assert isinstance(error, WorldError)
        assert any(name in str(error) for name in variables)
        return
    whole = [
        (int(variables[rank]), int(variables[size]))
        for rank, size in PAIRS
        if variables.get(rank, "").isascii()
        and variables.get(rank, "").isdigit()
        and variables.get(size, "").isascii()
        and variables.get(size, "").isdigit()
    ]
    if world == World(0, 1) and "no provider answered" in world.source:
        assert not any(variables.get(name) for pair in PAIRS for name in pair)
    else:
        assert (world.rank, world.size) in whole
