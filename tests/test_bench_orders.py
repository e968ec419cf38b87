"""The benchmark of the orders runs, at a tiny size; pictures are drawn; the reference has all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from elastic_sampler import orders

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(not (ROOT / "bench").exists(), reason="the benchmark is in the checkout only")
def test_the_benchmark_prints_a_line_for_every_kind_of_order_with_numpy_and_without() -> None:
    pytest.importorskip("numpy", reason="needs NumPy")
    arguments = ["--num-samples", "3000", "--worlds", "2", "--rounds", "1", "--limit", "900"]
    ran = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "orders.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )

    lines = ran.stdout.splitlines()[1:]
    measured = {line[:25].split(",")[0].strip() for line in lines}
    assert set(orders.__all__) - {"Draw", "Rotation"} == measured
    assert ["with", "no"] * (len(lines) // 2) == [line[30:35].strip() for line in lines]
    assert all(float(line.split()[-2]) > 0 for line in lines)


def test_every_picture_of_the_documentation_is_drawn_by_the_script(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    pytest.importorskip("torch", reason="draws torch's order too")
    script = ROOT / "docs" / "assets" / "pictures.py"
    environ = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "config")}
    subprocess.run([sys.executable, script, tmp_path], env=environ, timeout=180, check=True)

    drawn = {picture.name for picture in tmp_path.glob("*.png")}
    assert {picture.name for picture in script.parent.glob("*.png")} == drawn
    pages = "".join(page.read_text() for page in (ROOT / "docs" / "how-to").glob("*.md"))
    assert all(f"../assets/{name}" in pages for name in drawn)


def test_the_reference_has_every_kind_of_order() -> None:
    api = (ROOT / "docs" / "reference" / "api.md").read_text()

    assert all(
        f"::: elastic_sampler.orders.{name}\n" in api for name in set(orders.__all__) - {"Rotation"}
    )
