"""chainrule experiment: a table, sentences and a plot; and what is refused."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, get_args

import pytest

from chainrule.features.lectures.experiments import Name
from chainrule.features.lectures.experiments import recurrence as gradients
from chainrule.features.lectures.shell import experiment

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gradients.gradients
    monkeypatch.setattr(gradients, "gradients", lambda **given: whole(**given, length=12, rows=2))


@pytest.mark.usefixtures("small")
def test_an_experiment_prints_and_plots_its_findings(chainrule, tmp_path: Path) -> None:
    plot = tmp_path / "plot.svg"
    result = chainrule("experiment", "gradients", "-o", plot, "--seed", 3)
    assert result.status == 0, result.err
    assert result.lines[1].startswith("norm of the gradient, by distance in tokens ")
    assert any(line.startswith("LSTM: ") for line in result.lines)
    assert plot.read_text().startswith("<svg")
    assert "exists already; use --overwrite" in chainrule("experiment", "gradients", "-o", plot).error
    found = chainrule("experiment", "gradients", "-o", plot, "--seed", 3, "--overwrite", "--json").json
    assert {len(line["y"]) for line in found["lines"]} == {12}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("name", "start"), [("g.pdf", b"%PDF-"), ("g.PNG", b"\x89PNG")])
def test_a_plot_is_of_the_kind_that_its_name_says(chainrule, tmp_path: Path, name: str, start: bytes) -> None:
    assert chainrule("experiment", "gradients", "-o", tmp_path / name).status == 0
    assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.usefixtures("small")
def test_without_matplotlib_figures_are_shown_and_a_plot_that_is_asked_for_is_refused(
    chainrule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    result = chainrule("experiment", "gradients")
    assert result.status == 0
    assert result.err == "note: gradients.svg was not drawn: plots need pip install 'chainrule[report]'\n"
    assert result.lines[1].startswith("norm of the gradient")
    refused = chainrule("experiment", "gradients", "-o", "g.svg")
    assert refused.status == 1
    assert refused.error == "plots need matplotlib, which is not installed: pip install 'chainrule[report]'"
    assert list(tmp_path.iterdir()) == []


def test_help_describes_every_experiment() -> None:
    described = re.findall(r"^    ([a-z]+): ", experiment.__doc__ or "", re.MULTILINE)
    assert sorted(described) == sorted(get_args(Name))


def test_an_interrupt_speaks_of_no_folder(chainrule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt("interrupted after step 5; nothing was saved, since no folder was given")

    monkeypatch.setattr("chainrule.features.lectures.experiments.recurrence.gradients", interrupted)
    result = chainrule("experiment", "gradients", "-o", tmp_path / "g.svg")
    assert (result.status, result.error) == (130, "interrupted; an experiment saves nothing before its end")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["weather"], 2, "weather"),
        (["memory", "-o", "none/plot.svg"], 1, "there is no folder none"),
        (["cost", "--seed", "x"], 2, "--seed"),
        (["balance", "--seed", "-1"], 1, "--seed is -1; expected 0 or more"),
        (["gradients", "-o", "g.gif"], 2, "--output g.gif: its name must end in .pdf, .png or .svg."),
    ],
)
def test_bad_options_are_errors(arguments: list[str], status: int, message: str, chainrule) -> None:
    result = chainrule("experiment", *arguments)
    assert result.status == status
    assert message in result.error
