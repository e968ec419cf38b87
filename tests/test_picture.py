"""Pictures: position against rank, one band per round, the repeats marked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from elastic_sampler import simulate
from elastic_sampler.cli import main
from elastic_sampler.picture import COLOURS, MARK, Band, Mark, draw, save

pytest.importorskip("matplotlib", reason="needs matplotlib: the extra `plot`")


def boxes(figure: Any) -> dict[str, set[tuple[int, int]]]:
    """For each colour the (rank, position) of the cells in the first panel."""
    from matplotlib.colors import to_hex

    found: dict[str, set[tuple[int, int]]] = {}
    for patch in figure.axes[0].patches:
        cell = int(patch.get_x() + 0.5), int(patch.get_y())
        found.setdefault(to_hex(patch.get_facecolor()).upper(), set()).add(cell)
    return found


def words(figure: Any) -> str:
    return " ".join(text.get_text() for text in figure.axes[0].texts)


@pytest.mark.parametrize("start_rank", [0, 1, 7])
def test_each_sample_of_a_small_epoch_is_a_cell_at_its_rank_and_position(start_rank: int) -> None:
    report = simulate(23, [(4, 3), 3], start_rank=start_rank)
    drawn = boxes(report.plot())

    for number, round_ in enumerate(report.rounds):
        places = {
            (rank, place) for rank, share in enumerate(round_.shares) for place in share.places
        }
        assert places == drawn[COLOURS[number]]
    (last,) = report.rounds[1:]
    padding = {(rank, max(share.places)) for rank, share in enumerate(last.shares) if share.padding}
    assert 1 == len(padding)
    assert padding == drawn[MARK]


def test_a_large_epoch_is_drawn_in_columns_and_costs_nothing_per_sample() -> None:
    report = simulate(10**12, [(8, 10**9), (6, 10**9), 7], batch_size=96)
    figure = report.plot()
    figure.canvas.draw()

    drawn = boxes(figure)
    assert {(rank, 0) for rank in range(8)} == drawn[COLOURS[0]]
    assert "8 ranks\n1,000,000,000 steps" in words(figure)
    assert "repeated" in words(figure)


def test_panels_stand_side_by_side_and_an_empty_one_is_drawn_too() -> None:
    bands = [Band(2, 0, 6, 3, 0)]
    figure = draw(5, {"epoch 0": (bands, [Mark(1, 5)]), "epoch 1": ((), ())})

    assert ["epoch 0", "epoch 1"] == [axes.get_title() for axes in figure.axes]
    assert {(1, 5)} == boxes(figure)[MARK]
    assert "nothing" == draw(0, {}).axes[0].get_title()
    many = draw(5, {str(epoch): (bands, ()) for epoch in range(9)})
    many.canvas.draw()
    tops = [round(axes.get_position().y1, 2) for axes in many.axes]
    assert [4, 4, 1] == [tops.count(top) for top in sorted(set(tops), reverse=True)]


def test_a_picture_is_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg", "a.png", "b.png"):
        save(simulate(100, [4, 3]).plot(), tmp_path / name)
    for suffix in ("svg", "png"):
        same = [(tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab"]
        assert same[0] == same[1]
    assert "4 ranks" in (tmp_path / "a.svg").read_text()


def test_plan_and_audit_draw_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.svg"
    assert 0 == main(["plan", "--num-samples", "50", "--worlds", "4:3,3", "--picture", str(path)])
    assert "3 ranks" in path.read_text()

    log = tmp_path / "log.csv"
    log.write_text("epoch,step,rank,world_size,samples\n0,0,0,1,0 1 1\n")
    command = ["audit", str(log), "--num-samples", "2", "--picture", str(tmp_path / "audit.png")]
    assert 1 == main(command)
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")
    assert 2 == main([*command[:-1], str(tmp_path / "nowhere" / "audit.png")])
    assert "nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([*command[:-1], "audit.jpg"])
    assert "must end with .svg or .png, got 'audit.jpg'" in capsys.readouterr().err


def test_without_matplotlib_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'elastic-sampler\[plot\]'"):
        simulate(10, [2]).plot()
    command = ["plan", "--num-samples", "10", "--worlds", "2", "--picture", "x.svg"]
    assert 2 == main(command)
    assert "elastic-sampler[plot]" in capsys.readouterr().err
