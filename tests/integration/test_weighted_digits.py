"""Rare classes, balanced by weighted draws: two gloo ranks through two resizes, on real digits."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from integration.conftest import Processes, need

from elastic_sampler.orders import Weighted

RANK = Path(__file__).with_name("weighted_digits_rank.py")

ENVIRON = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def run(processes: Processes, kind: str, directory: Path) -> list[dict[str, Any]]:
    """What each of the two ranks found."""
    need(find_spec("torch") and find_spec("sklearn"), "needs torch and scikit-learn: extra `test`")
    directory.mkdir()
    started = [
        processes.start(
            f"{kind} {rank}", [sys.executable, RANK, kind, str(rank), directory], ENVIRON
        )
        for rank in range(2)
    ]
    found = []
    for process in started:
        assert 0 == process.wait(120), process.output
        found.append(json.loads(process.output.splitlines()[-1]))
    return found


def test_rare_classes_are_learnt_when_they_are_drawn_as_often_as_others_through_resizes(
    processes: Processes, tmp_path: Path
) -> None:
    first, second = run(processes, "weighted", tmp_path / "weighted")
    labels = first["labels"]
    n, sizes = len(labels), Counter(labels)
    assert (6, 6) == (sizes[8], sizes[9])
    assert min(size for label, size in sizes.items() if label < 8) > 100

    # Both resizes came in the middle of an epoch.
    assert first["positions"][0] == second["positions"][0]
    assert all(0 < position < n for _, position in first["positions"][:2])
    assert [5, n] == first["positions"][2] == second["positions"][1]
    assert first["weights"] == second["weights"]

    # All draws of all epochs were trained, each as often as it was drawn, by the two together.
    order = Weighted([1 / sizes[label] for label in labels], seed=0)
    drawn = Counter((epoch, sample) for epoch in range(6) for sample in order(epoch))
    trained = Counter(
        (epoch, sample) for rank in (first, second) for epoch, sample in rank["trained"]
    )
    assert drawn == trained
    classes = Counter[int]()
    for (_, sample), count in trained.items():
        classes[labels[sample]] += count
    assert all(count == pytest.approx(6 * n / 10, rel=0.15) for count in classes.values())

    # The model is that of a training that was never resized: only the order of sums differs.
    assert first["away"] == pytest.approx(0, abs=1e-4)

    (plain, _) = run(processes, "plain", tmp_path / "plain")
    rare, rare_plain = first["recall"][8:], plain["recall"][8:]
    assert min(rare) > 0.4, (rare, rare_plain)
    assert sum(rare) > sum(rare_plain) + 0.5, (rare, rare_plain)
    assert sum(first["recall"]) > sum(plain["recall"])
