"""The benchmarks run: at tiny sizes, for their own sake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.mark.skipif(not BENCH.exists(), reason="the benchmarks are in the checkout only")
@pytest.mark.parametrize(
    ("script", "worlds", "figure"), [("compare.py", [1, 8], -4), ("batches.py", [8], -2)]
)
def test_a_comparison_prints_a_line_per_contender(
    script: str, worlds: list[int], figure: int
) -> None:
    pytest.importorskip("torch", reason="compares with torch's DistributedSampler")
    arguments = ["--num-samples", "1000", "--worlds", ",".join(map(str, worlds)), "--rounds", "1"]
    ran = subprocess.run(
        [sys.executable, str(BENCH / script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    lines = [line.split() for line in ran.stdout.splitlines()[1:]]
    assert ["torch", "ours", "no"] * len(worlds) == [line[2] for line in lines]
    assert [str(size) for size in worlds for _ in range(3)] == [line[1] for line in lines]
    assert all(float(line[figure]) > 0 for line in lines)
