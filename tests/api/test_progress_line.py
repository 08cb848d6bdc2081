"""The progress of calls from Python: whom it is shown to, and how."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

import chainrule
from chainrule.base.progress import format_duration, silent
from chainrule.models.progress_line import ProgressLine, callback, on_report_of, showing, shows_progress
from chainrule.training.reports import Report, ignore

REPORT: dict[str, Any] = {"tokens": 640, "epoch": 0.1, "loss": 2.5, "gradient": 1.0, "rate": 1.0, "seconds": 1.0}
REPORT |= {"steps": 100, "tokens_per_second": 640.0, "peak_share": 0.5, "memory": None, "seconds_left": 9.0}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(written: str) -> str:
    """What stands in the last line of a terminal: a return goes to its start, and what is written covers what was."""
    cells: list[str] = []
    place = 0
    for character in written.rpartition("\n")[2]:
        if character == "\r":
            place = 0
            continue
        cells[place : place + 1] = [character]
        place += 1
    return "".join(cells).rstrip()


@pytest.mark.parametrize(("seconds", "clock"), [(0.4, "0:00"), (65.2, "1:05"), (3605, "1:00:05")])
def test_a_clock(seconds: float, clock: str) -> None:
    assert format_duration(seconds) == clock


def test_a_line_changes_after_two_seconds_and_goes_at_the_end() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, changes=True, clock=clock)
    clock.now = 1.9
    line("counting", 19, 100)
    assert stream.getvalue() == ""
    clock.now = 4.0
    line("counting", 50, 100)
    assert shown(stream.getvalue()) == "counting  50%  0:02 left"  # the other half takes as long, from its first call
    clock.now = 4.05
    line("counting", 51, 100)
    assert shown(stream.getvalue()) == "counting  50%  0:02 left"  # not ten times a second
    clock.now = 5.0
    line("sorting", 1, None)
    assert shown(stream.getvalue()) == "sorting"
    line.close()
    assert shown(stream.getvalue()) == ""
    assert "\n" not in stream.getvalue()


def test_a_line_that_changes_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, changes=True, clock=clock)
    clock.now = 3.0
    line.report(Report(step=1, **REPORT))
    assert shown(stream.getvalue()) == "step 1 of 100  loss 2.5000  640 tokens/"
    line.close()
    assert shown(stream.getvalue()) == ""


def test_a_log_gets_whole_lines_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    line = ProgressLine(stream, changes=False, clock=clock)
    for second in range(70):
        clock.now = float(second)
        line("counting", second, 100)
    line.close()
    assert [text.split()[0] for text in stream.getvalue().splitlines()] == ["counting"] * 3
    assert "\r" not in stream.getvalue()


def test_validations_of_a_training_stay() -> None:
    stream, clock = Terminal(), Clock()
    line = ProgressLine(stream, changes=True, clock=clock)
    clock.now = 3.0
    line.report(Report(step=1, **REPORT))
    line.report(Report(step=10, valid_loss=2.0, is_best=True, **REPORT))
    line.report(Report(step=11, note="something to know", **REPORT))
    line.close()
    first, second, _ = stream.getvalue().split("\n")
    assert (
        shown(first)
        == "step 10 of 100  loss 2.5000  validation 2.0000 *  640 tokens/s  50% of peak  rate 1.000  0:09 left"
    )
    assert shown(second) == "note: something to know"


def test_who_is_shown_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def given(task: str, done: float, total: float | None) -> None:
        calls.append(task)

    monkeypatch.setattr(sys, "stderr", Terminal())
    for option, kind in ((None, ProgressLine), (True, ProgressLine), (False, None), (given, None)):
        with showing(option) as progress:
            assert isinstance(progress, ProgressLine) is (kind is not None)
            with showing(None) as inner:  # one line at a time
                assert isinstance(inner, ProgressLine) is (kind is None)
    monkeypatch.setenv("RANK", "1")  # one of several processes, which share the terminal
    with showing(None) as progress:
        assert progress is silent
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with showing(None) as progress:
        assert progress is silent
    with showing(True) as progress:
        assert isinstance(progress, ProgressLine)
    monkeypatch.setattr(sys, "stderr", None)  # as under pythonw
    with showing(None) as progress:
        assert progress is silent
    with (
        pytest.raises(chainrule.SettingError, match="progress is 3; expected True, False, None or a callback"),
        showing(3),
    ):  # type: ignore[arg-type]
        pass


def test_the_output_of_a_notebook_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    stream_of_a_notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    monkeypatch.setattr(sys, "stderr", stream_of_a_notebook())
    with showing(None) as progress:
        assert isinstance(progress, ProgressLine)


def test_a_function_that_shows_progress_is_given_a_callback_however_it_is_called() -> None:
    @shows_progress
    def work(text: str, progress: Any = None, *, more: int = 0) -> tuple[str, Any, int]:
        """What it does."""
        return text, callback(progress), more

    def given(task: str, done: float, total: float | None) -> None:
        pass

    assert work("a", given) == ("a", given, 0)
    assert work("a", progress=given, more=2) == ("a", given, 2)
    assert work("a", False) == work("a", progress=False) == work("a") == ("a", silent, 0)
    assert work.__doc__ == "What it does."
    with pytest.raises(TypeError, match="text"):
        work()  # type: ignore[call-arg]


def test_reports_of_a_training_go_where_progress_goes() -> None:
    calls: list[tuple[str, float, float | None]] = []
    on_report_of(lambda task, done, total: calls.append((task, done, total)))(Report(step=7, **REPORT))
    assert calls == [("training", 7, 100)]
    assert on_report_of(silent) is ignore


def test_training_reports_progress_and_prints_readable_lines(fixtures, capsys: pytest.CaptureFixture[str]) -> None:
    tasks: set[str] = set()
    config = chainrule.RecurrentConfig(width=8, layers=1, context=8)
    training = chainrule.TrainingConfig(steps=2, compile="no")
    chainrule.train(
        fixtures / "heldout.txt", config, training=training, progress=lambda task, done, total: tasks.add(task)
    )
    assert "training" in tasks
    assert capsys.readouterr() == ("", "")
    chainrule.train(fixtures / "heldout.txt", config, training=training, on_report=print)
    printed = capsys.readouterr().out.splitlines()
    assert all(line.startswith("step ") and len(line) < 160 for line in printed)
    assert printed[-1].startswith("step 2 of 2  loss ")
    chainrule.train(fixtures / "heldout.txt", config, training=training, progress=True)
    assert "step 2 of 2  loss " in capsys.readouterr().err
