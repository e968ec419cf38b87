"""Ray Train's own elasticity, under a trainer that sets no variables: only its context knows."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from integration.conftest import Processes
from integration.frameworks import installed
from integration.test_ray_loader import ENVIRON

from elastic_sampler import audit

JOB = Path(__file__).with_name("ray_elastic_job.py")


def test_a_ray_job_that_grows_from_1_to_2_ranks_goes_on_where_it_was(
    processes: Processes, tmp_path: Path
) -> None:
    installed("ray")
    with TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as scratch:
        environ = {**ENVIRON, "RAY_TMPDIR": scratch}
        job = processes.start("ray job", [sys.executable, JOB, tmp_path], environ)
        assert 0 == job.wait(240), job.output

    said = [path.read_text() for path in sorted(tmp_path.glob("said-*.txt"))]
    grown = said[1].partition("position ")[2]
    assert [
        "0 of 1: ray.train, context, position 0",
        f"0 of 2: ray.train, context, position {grown}",
        f"1 of 2: ray.train, context, position {grown}",
    ] == said
    report = audit(tmp_path.glob("*.jsonl"), 200)
    assert report.exact, str(report)
    assert all(200 <= epoch.trained <= 201 for epoch in report.epochs)
