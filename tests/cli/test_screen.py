"""What people see while they wait, and what programs do not."""

from __future__ import annotations

import io
import itertools
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from chainrule.base import jit
from chainrule.base.tables import count_of
from chainrule.cli.main import run
from chainrule.cli.shared import screen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Puts a terminal in the place of standard error."""
    fake = Terminal()
    monkeypatch.setattr(sys, "stderr", fake)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return fake


def clock_says(monkeypatch: pytest.MonkeyPatch, monotonic: Callable[[], float]) -> None:
    """To the screen alone: a server in this process whose clock jumped would sleep for hours."""
    monkeypatch.setattr(screen, "time", SimpleNamespace(monotonic=monotonic))


def test_a_terminal_is_shown_the_task_and_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on = terminal(monkeypatch)
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    with screen.progress_bar() as progress:
        progress("counting", 1, 4)
        progress("counting", 3, 4)
        progress("saving", 1, None)
    shown = shown_on.getvalue()
    assert "counting" in shown
    assert "100%" in shown  # what something else follows is done
    assert "75%" not in shown.rsplit("counting", 1)[1]
    assert "saving" in shown


def test_nothing_is_shown_to_a_terminal_before_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on = terminal(monkeypatch)
    clock = itertools.count()  # a second passes with each look
    clock_says(monkeypatch, lambda: float(next(clock)))
    monkeypatch.setattr(screen, "PATIENCE", 3.0)
    with screen.progress_bar() as progress:
        progress("reading", 1, 10)
        progress("reading", 2, 10)
        assert shown_on.getvalue() == ""
        for done in range(3, 10):
            progress("reading", done, 10)
    assert "reading" in shown_on.getvalue()


def test_slow_work_is_shown_after_two_seconds_even_without_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown_on = terminal(monkeypatch)
    timers: list[screen.threading.Timer] = []
    monkeypatch.setattr(screen.threading.Timer, "start", lambda timer: timers.append(timer))
    now = [0.0]
    clock_says(monkeypatch, lambda: now[0])
    with screen.progress_bar() as progress:
        progress("evaluating", 0, 10)
        progress("evaluating", 1, 10)
        assert shown_on.getvalue() == ""
        [timer] = timers
        assert timer.interval == screen.PATIENCE
        now[0] = screen.PATIENCE
        timer.function()
        assert "evaluating" in shown_on.getvalue()


def test_work_that_is_over_when_patience_ends_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    shown_on = terminal(monkeypatch)
    timers: list[screen.threading.Timer] = []
    monkeypatch.setattr(screen.threading.Timer, "start", lambda timer: timers.append(timer))
    now = [0.0]
    clock_says(monkeypatch, lambda: now[0])
    with screen.progress_bar() as progress:
        progress("opening", 0, 10)
        progress("opening", 10, 10)
        now[0] = screen.PATIENCE
        timers[0].function()
    timers[0].function()  # too late to be cancelled
    assert shown_on.getvalue() == ""


@pytest.mark.parametrize("verb", ["train", "evaluate", "compare", "convert"])
def test_long_work_shows_progress_on_a_terminal(
    verb: str, model: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown_on = terminal(monkeypatch)
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    arguments = {
        "train": ["train", "ngram", corpus, "-o", tmp_path / "lm"],
        "evaluate": ["evaluate", model, corpus],
        "compare": ["compare", corpus, "--order", 1],
        "convert": ["convert", model, tmp_path / "lm.arpa"],
    }[verb]
    assert run([str(argument) for argument in arguments]) == 0
    task = {"train": "saving", "evaluate": "evaluating", "compare": "reading", "convert": "writing ARPA"}[verb]
    assert task in shown_on.getvalue()


def test_without_a_terminal_nothing_is_shown(
    chainrule, model: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "PATIENCE", 0.0)
    assert chainrule("evaluate", model, corpus).err == ""


@pytest.mark.parametrize("verb", ["evaluate", "score", "next", "generate", "verify"])
def test_the_first_run_says_why_it_takes_long(
    verb: str, chainrule, model: Path, heldout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "is_first_run", lambda: True)
    further = {"evaluate": [heldout], "score": [heldout], "generate": ["--seed", 1]}
    result = chainrule(verb, model, *further.get(verb, []))
    assert result.status == 0
    assert result.err == "note: compiling for this machine; this happens once and takes 5 to 20 seconds\n"


def test_where_compiled_code_cannot_be_kept_the_note_says_what_to_do(
    chainrule, model: Path, heldout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jit, "cache_folder", lambda: None)
    assert "CHAINRULE_CACHE" in chainrule("evaluate", model, heldout).err


def test_what_is_not_finite_is_no_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert [screen.finite(number) for number in (1.5, float("inf"), float("-inf"), float("nan"))] == [
        1.5,
        None,
        None,
        None,
    ]
    with pytest.raises(ValueError, match="not JSON compliant"):
        screen.print_json({"perplexity": float("inf")})
    screen.print_json({"token": "語\n"})
    assert capsys.readouterr().out == '{"token": "語\\n"}\n'


def test_one_thing_is_not_counted_in_the_plural() -> None:
    assert [count_of(number, "step") for number in (0, 1, 2000)] == ["0 steps", "1 step", "2,000 steps"]
    assert [count_of(number, "hypothesis", "hypotheses") for number in (1, 2)] == ["1 hypothesis", "2 hypotheses"]


def test_where_there_is_no_terminal_a_line_comes_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = [0.0]
    clock_says(monkeypatch, lambda: clock[0])
    with screen.progress_bar() as progress:
        for clock[0] in range(0, 100, 10):
            progress("reading with the teacher", clock[0], 100)
        progress("saving", 1, None)
    assert sys.stderr.getvalue().splitlines() == ["reading with the teacher: 40%", "reading with the teacher: 80%"]  # type: ignore[attr-defined]
