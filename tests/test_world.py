"""Worlds are values, and variables are believed in whole pairs of plain numbers only."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic_sampler import Nearness, World, WorldRefusedError


@pytest.mark.parametrize(
    ("rank", "size", "error", "told"),
    [
        (0, 0, ValueError, r"world size must be at least 1, got 0 with rank 0 \(here\)"),
        (0, -1, ValueError, "world size must be at least 1, got -1"),
        (2, 2, ValueError, r"rank must be in \[0, 2\), got 2 \(here\)"),
        (-1, 2, ValueError, r"rank must be in \[0, 2\), got -1"),
        (0, 2.0, TypeError, r"world size must be an integer, got 2\.0"),
        (0, "2", TypeError, "world size must be an integer, got '2'"),
        ("1", 2, TypeError, "rank must be an integer, got '1'"),
        (True, 2, TypeError, "rank must be an integer, got True"),
        (0, True, TypeError, "world size must be an integer, got True"),
        (None, 2, TypeError, "rank must be an integer, got None"),
        (5, 0, ValueError, "world size must be at least 1, got 0 with rank 5"),
    ],
)
def test_bad_numbers_are_refused_with_both_values_and_the_size_is_blamed_first(
    rank: Any, size: Any, error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        World(rank, size, "here")


def test_a_world_is_a_frozen_value_and_its_source_is_no_part_of_it() -> None:
    world = World(1, 4, "there", Nearness.LIVE)

    assert World(1, 4) == world
    assert hash(World(1, 4)) == hash(world)
    assert World(0, 4) != world
    assert ("there", Nearness.LIVE) == (world.source, world.nearness)
    assert Nearness.HINT is World(1, 4).nearness
    assert Nearness.MPI is World(1, 4, nearness=3).nearness  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.rank = 2  # type: ignore[misc]


def test_numpy_integers_become_python_ints() -> None:
    numpy = pytest.importorskip("numpy", reason="needs NumPy")
    world = World(numpy.int64(1), numpy.int32(4))

    assert (int, int) == (type(world.rank), type(world.size))
    with pytest.raises(TypeError):
        World(numpy.bool_(True), 4)


def read(**environ: str) -> World | None:
    return World.from_variables("R", "S", nearness=Nearness.MPI, environ=environ)


def test_a_whole_pair_is_a_world_and_says_where_it_was_read() -> None:
    world = read(R="1", S="4")

    assert World(1, 4) == world
    assert world is not None
    assert ("R=1, S=4", Nearness.MPI) == (world.source, world.nearness)
    assert World(0, 1) == read(R="0", S="1")
    assert World(7, 10**17) == read(R="007", S=f"{10**17}")


@pytest.mark.parametrize("environ", [{}, {"R": ""}, {"S": ""}, {"R": "", "S": ""}])
def test_an_empty_variable_counts_as_unset(environ: dict[str, str]) -> None:
    assert read(**environ) is None


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"R": "3"}, "R and S must be set together, got R='3' without S: set S too, or unset R"),
        ({"S": "4"}, "got S='4' without R: set R too, or unset S"),
        ({"R": "", "S": "4"}, "got S='4' without R"),
        ({"R": "4", "S": "4"}, r"R must be in \[0, S\) and S at least 1, got R=4, S=4"),
        ({"R": "0", "S": "0"}, "got R=0, S=0"),
        *(
            ({"R": bad, "S": "4"}, "R must be a plain decimal integer")
            for bad in (" 1", "1 ", "1_0", "+1", "-1", "1.0", "0x1", "one", "٣", "1\n", "1e2")
        ),
        ({"R": "1", "S": "1" + "0" * 18}, "S must be .* of at most 18 digits, got '10"),
        ({"R": "1", "S": "9" * 5000}, r"S must be a plain .*'99.*…\ \(5000 characters\)"),
    ],
)
def test_half_pairs_and_malformed_values_are_refused_by_name(
    environ: dict[str, str], told: str
) -> None:
    with pytest.raises(WorldRefusedError, match=told) as refused:
        read(**environ)
    assert Nearness.MPI is refused.value.nearness


@given(st.text(), st.text())
def test_any_two_texts_are_a_world_nothing_or_a_refusal(rank: str, size: str) -> None:
    try:
        world = read(R=rank, S=size)
    except WorldRefusedError as refused:
        assert "R" in str(refused) or "S" in str(refused)
    else:
        assert world is None or (world.rank, world.size) == (int(rank), int(size))
