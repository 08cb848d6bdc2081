"""Learning curves are what the logs of networks say, and a folder without one is named in a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import chainrule
from chainrule.errors import ModelFormatError, SettingError
from chainrule.features.compare import learning

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.drawing.plots import Line

REPORTS = [
    {"event": "begun", "step": 0},
    {"step": 1, "seconds": 0.5, "loss": 3.0},
    {"step": 2, "seconds": 1.0, "loss": 2.0, "valid_loss": 2.5},
    {"step": 3, "seconds": 1.5, "loss": None},
    {"step": 4, "seconds": 2.0, "loss": 1.0, "valid_loss": 1.5},
]


@pytest.fixture
def network(tmp_path: Path) -> Path:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/log.jsonl").write_text("".join(f"{json.dumps(report)}\n" for report in REPORTS))
    return tmp_path / "net"


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    """What is drawn."""
    found: list[Line] = []
    plot = learning.Plot
    monkeypatch.setattr(learning, "Plot", lambda **fields: (found.extend(fields["lines"]), plot(**fields))[1])
    return found


@pytest.mark.parametrize(("by", "places"), [("step", [1, 2, 4]), ("seconds", [0.5, 1, 2])])
def test_losses_are_those_of_the_log(
    by: learning.Abscissa, places: list[float], network: Path, lines: list[Line]
) -> None:
    chainrule.draw_learning([network], by).save(network / "curves.svg")
    training, validation = lines
    assert (training.label, training.x, training.y) == ("net, training", places, [3, 2, 1])
    assert (validation.label, validation.x, validation.y) == ("net, validation", places[1:], [2.5, 1.5])
    assert "net, validation" in (network / "curves.svg").read_text()


def test_many_points_are_averaged(network: Path, lines: list[Line], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "_MOST_POINTS", 2)
    chainrule.draw_learning([network])
    assert (lines[0].x, lines[0].y) == ([2, 4], [2.5, 1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no model; learning curves are drawn for networks"),
        ('{"step": 1}\n', "log.jsonl:1: is damaged"),
        ("\n", "log.jsonl:1: is damaged"),
        ('{"event": "begun"}\n', "there is no report of a training step in it"),
    ],
)
def test_a_folder_without_a_whole_log_is_refused(content: str | None, message: str, network: Path) -> None:
    (network / "log.jsonl").unlink()
    if content is not None:
        (network / "log.jsonl").write_text(content)
    with pytest.raises(ModelFormatError, match=message):
        chainrule.draw_learning([network])


def test_an_unknown_axis_and_no_network_are_refused(network: Path) -> None:
    with pytest.raises(SettingError, match="by is 'day'; expected step or seconds"):
        chainrule.draw_learning([network], "day")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="there is no network to draw"):
        chainrule.draw_learning([])


def test_the_shell_draws_several(network: Path, chainrule) -> None:
    target = network / "curves.svg"
    assert chainrule("draw", network, network, "--show", "learning", "--by", "seconds", "-o", target).status == 0
    assert "seconds of training" in target.read_text()
    assert chainrule("draw", network, "--by", "step", "-o", network / "x.svg").status == 2
