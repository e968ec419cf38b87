"""The benchmark runs: at tiny sizes, for its own sake."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TORCH = "torch DistributedSampler"

BENCH = Path(__file__).parents[1] / "bench"

pytestmark = [
    pytest.mark.skipif(not BENCH.exists(), reason="the benchmark is in the checkout only"),
    pytest.mark.skipif(sys.platform != "linux", reason="the benchmark needs Linux"),
]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """What one run printed and wrote, and where it drew."""
    here = tmp_path_factory.mktemp("bench")
    sizes = ["--num-samples", "1000,1e5", "--worlds", "1,2", "--size", "1000,2000", "--rounds", "1"]
    drawn = ["--plot", str(here)] if find_spec("matplotlib") else []
    run = subprocess.run(
        [sys.executable, str(BENCH / "compare.py"), *sizes, "--json", str(here / "x.json"), *drawn],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    assert "left out of" not in run.stderr
    return run.stdout, json.loads((here / "x.json").read_text()), here


def test_ours_is_measured_in_every_way(ran: tuple[str, dict[str, Any], Path]) -> None:
    printed, found, _ = ran
    ours = [row for row in found["figures"] if row["contender"] == "ours"]
    cells = {(row["measure"], row["num_samples"], row["world_size"]) for row in ours}

    swept = {("iterate", n, w) for n in (1000, 2000) for w in (1, 2)}
    assert swept | {("iterate", 10**5, 1), ("resume", 1000, 1), ("resume", 10**5, 1)} <= cells
    if find_spec("numpy"):
        assert {("array", 1000, 1), ("array", 2000, 1)} <= cells
    if find_spec("torch"):
        assert {("load", 1000, 1), ("load", 1000, 2)} <= cells
    for row in ours:
        costs = {name: value for name, value in row.items() if name[:2] in ("ns", "fi", "us")}
        assert costs and min(costs.values()) > 0, row
    first = next(row for row in ours if (row["measure"], row["num_samples"]) == ("iterate", 1000))
    assert f"\n| ours | {first['ns']:,.0f}" in printed


def test_peers_are_measured_or_named(ran: tuple[str, dict[str, Any], Path]) -> None:
    printed, found, _ = ran
    measured = {row["contender"] for row in found["figures"]}

    assert {"ours", "ours, no NumPy", "list + random.shuffle"} <= measured
    for package, name in (
        ("torch", TORCH),
        ("torchdata", "torchdata StatefulDistributedSampler"),
        ("accelerate", "Accelerate BatchSamplerShard"),
        ("grain", "Grain IndexSampler"),
    ):
        told = f"{name} is left out: {package} is not installed" in printed
        assert [name in measured, not told] == [find_spec(package) is not None] * 2


def test_ratios_are_relative_to_torch(ran: tuple[str, dict[str, Any], Path]) -> None:
    pytest.importorskip("torch", reason="compares with torch's DistributedSampler")
    lines = [line.split(" | ") for line in ran[0].splitlines() if line.startswith("| ")]
    cells = {
        name: [line[1] for line in lines if line[0] == f"| {name}"] for name in ("ours", TORCH)
    }

    # Of the first table, which is of time: memory may be 0 at tiny sizes, and has no ratios then.
    assert cells[TORCH][0].endswith(" (1)")
    assert cells["ours"][0].endswith(")")


def test_curves_are_drawn(ran: tuple[str, dict[str, Any], Path]) -> None:
    pytest.importorskip("matplotlib", reason="draws with matplotlib")
    drawn = {path.stem: path.read_text() for path in ran[2].glob("*.svg")}

    assert {"ns-by-samples", "ns-by-ranks", "memory-by-samples"} <= set(drawn)
    assert all(">ours<" in text for text in drawn.values())
