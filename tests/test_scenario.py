"""The comparison of one scenario runs: at a tiny size, with the peers that every checkout has."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"

pytestmark = pytest.mark.skipif(
    not BENCH.exists(), reason="the benchmarks are in the checkout only"
)


def played(*arguments: str) -> list[str]:
    """The lines that the script prints, its head apart."""
    ran = subprocess.run(
        [sys.executable, str(BENCH / "scenario.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return ran.stdout.splitlines()[1:]


def figures(line: str) -> list[str]:
    """Lost, repeated, repeated in the tail, global batches, equal steps."""
    return line.split()[-6:-1]


def test_a_peer_that_starts_anew_repeats_what_was_trained_and_this_sampler_nothing() -> None:
    pytest.importorskip("torch", reason="compares with torch's DistributedSampler")
    scenario = "--num-samples", "1003", "--global-batch", "12", "--worlds", "4:10,5:6,3"
    ours, anew = played(*scenario, "--peer", "ours", "--peer", "torch, anew")

    # 1003 - 16 * 12 leaves 7 for the last step of 3 ranks
    assert ["0", "0", "2", "12", "yes"] == figures(ours)
    # 10 steps of 12, then 6 of 15: 12 is no multiple of 5; 3 divides 1003 with a rest of 1
    assert ["0", str(10 * 12 + 6 * 15), "2", "12/15/12", "yes"] == figures(anew)


def test_a_start_index_into_shuffled_data_loses_as_much_as_it_repeats() -> None:
    pytest.importorskip("torch", reason="compares with torch's DistributedSampler")
    [elastic] = played(
        "--num-samples", "999", "--rank-batch", "3", "--worlds", "4:50,3", "--peer", "torch elastic"
    )
    lost, repeated, tail, batches, equal = figures(elastic)

    assert int(lost) > 100
    assert int(lost) == int(repeated) + int(tail)
    assert ["12/9", "yes"] == [batches, equal]


def test_a_refusal_is_told_with_its_reason() -> None:
    pytest.importorskip("torch", reason="the scenario is played through DataLoader")
    _, refusal = played(
        "--num-samples", "100", "--global-batch", "6", "--worlds", "6:2,7", "--peer", "ours"
    )

    assert refusal.startswith("    refused after 1 stages: ValueError: ")
    assert "7" in refusal


def test_a_peer_that_is_not_installed_is_left_out_and_named() -> None:
    peers = {"Grain, elastic": "grain", "AdaptDL": "adaptdl", "torchft": "torchft"}
    absent = [name for name, module in peers.items() if not importlib.util.find_spec(module)]
    if not absent:
        pytest.skip("all of them are installed")
    [line] = played("--peer", absent[0])

    assert "left out" in line
    assert peers[absent[0]] in line
