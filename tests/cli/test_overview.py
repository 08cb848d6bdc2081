"""The lists that are shown without the parser are those that the parser shows."""

from __future__ import annotations

import io
import re
import sys

import pytest
from rich.console import Console

import chainrule as library
from chainrule.cli.main import app
from chainrule.cli.overview import overview, page


@pytest.mark.parametrize("command", ["", "train"])
def test_a_list_is_what_the_parser_shows_at_every_width(command: str) -> None:
    for width in (60, 61, 72, 80, 97, 120, 200, 400):
        shown = io.StringIO()
        app.help_print(command.split(), console=Console(width=width, file=shown))
        expected = [line.rstrip() for line in shown.getvalue().splitlines()]
        assert page(command, width).splitlines() == expected
        coloured = page(command, width, is_coloured=True)
        assert coloured.count("\033[36m") >= 20
        assert re.sub(r"\033\[\d+m", "", coloured) == page(command, width)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_where_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert overview(["--version"]) == f"{library.__version__}\n"
    monkeypatch.setenv("COLUMNS", "100")
    assert overview([]) == overview(["--help"]) == overview(["-h"]) == page("", 100)
    assert overview(["train"]) == overview(["train", "-h"]) == page("train", 100)
    for other in (["next", "--help"], ["train", "ngram", "--help"], ["nxet"], ["--help", "--debug"], ["--versio"]):
        assert overview(other) is None
    monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO(), encoding="utf-8"))
    assert overview([]) == page("", 100, is_coloured=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert overview([]) == page("", 100)
    monkeypatch.setenv("TERM", "dumb")
    assert overview([]) == page("", 80)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert overview([]) is None
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.delenv("TERM")
    monkeypatch.setenv("COLUMNS", "40")
    assert overview([]) is None
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert overview([]) is None
