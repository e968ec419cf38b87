"""The benchmark runs: at tiny sizes, for its own sake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench" / "compare.py"


@pytest.mark.skipif(not BENCH.exists(), reason="the benchmark is in the checkout only")
def test_the_comparison_prints_a_line_per_contender() -> None:
    pytest.importorskip("torch", reason="compares with torch's DistributedSampler")
    arguments = ["--num-samples", "1000", "--worlds", "1,8", "--rounds", "1"]
    ran = subprocess.run(
        [sys.executable, str(BENCH), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    lines = [line.split() for line in ran.stdout.splitlines()[1:]]
    assert ["torch", "ours", "no"] * 2 == [line[2] for line in lines]
    assert ["1"] * 3 + ["8"] * 3 == [line[1] for line in lines]
    assert all(float(line[-4]) > 0 for line in lines)
