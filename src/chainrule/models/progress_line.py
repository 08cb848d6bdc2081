"""The progress of a call from Python: one line that changes, at a terminal and in a notebook; elsewhere silence.

The command line has a bar of its own, `cli/shared/screen.py`.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from chainrule.base.progress import Progress, format_duration, silent
from chainrule.errors import SettingError
from chainrule.training.reports import OnReport, ignore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from chainrule.training.reports import Report

    Parameters = ParamSpec("Parameters")
    Result = TypeVar("Result")

# None: a line where somebody is looking, a terminal or a notebook; True: in a log, too; False: nothing; or a callback.
ProgressOption = Progress | bool | None

_PATIENCE = 2.0  # seconds without a word
_CHANGES = 0.1  # seconds between two changes of a line
_LINES = 30.0  # seconds between two lines of a log
_ESTIMATED_FROM = 0.02  # the share of the work after which the time left is shown
_screen = threading.Lock()  # held by the one line that is shown


def shows_progress(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a function whose argument `progress`, a ProgressOption, is the callback that it stands for inside."""
    place = function.__code__.co_varnames.index("progress")

    @wraps(function)
    def showing_progress(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        given = args[place] if place < len(args) else kwargs.get("progress")
        with showing(given) as progress:  # type: ignore[arg-type]  # it says what is wrong
            if place < len(args):
                args = (*args[:place], progress, *args[place + 1 :])  # type: ignore[assignment]
            else:
                kwargs["progress"] = progress
            return function(*args, **kwargs)

    return showing_progress


@contextmanager
def showing(progress: ProgressOption) -> Iterator[Progress]:
    """Yield the callback that an option stands for. Within a call that shows a line, others are silent.

    Raises SettingError.
    """
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise SettingError(f"progress is {progress!r}; expected True, False, None or a callback")
    if callable(progress):
        yield progress
        return
    changes = is_watched(sys.stderr)
    if not (changes if progress is None else progress) or not _screen.acquire(blocking=False):
        yield silent
        return
    line = ProgressLine(sys.stderr, changes=changes)
    try:
        yield line
    finally:
        line.close()
        _screen.release()


def callback(progress: ProgressOption) -> Progress:
    """Return the callback that `shows_progress` has put in the place of the option."""
    return progress if callable(progress) else silent


def on_report_of(progress: Progress) -> OnReport:
    """Return the callback that shows the reports of a training, if progress is shown."""
    if isinstance(progress, ProgressLine):
        return progress.report
    if progress is silent:
        return ignore
    return lambda report: progress("training", report.step, report.steps)


def is_watched(stream: TextIO | None) -> bool:
    """Return whether somebody is looking: at a terminal, or a notebook; of several processes, at the first."""
    is_screen = stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))
    return is_screen and os.environ.get("RANK", "0") == "0"


class ProgressLine:
    """A Progress on a stream. changes: whether a line can be overwritten; if not, as in a log, lines are rare."""

    def __init__(self, stream: TextIO, *, changes: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._changes, self._clock = stream, changes, clock
        self._task, self._task_began = "", clock()
        self._next = clock() + _PATIENCE
        self._width = 0  # of the line that may change

    def __call__(self, task: str, done: float, total: float | None) -> None:
        now = self._clock()
        if task != self._task:
            self._task, self._task_began = task, now
        if now < self._next:
            return
        share = done / total if total else None
        text = task if share is None else f"{task}  {share:.0%}"
        if share is not None and _ESTIMATED_FROM <= share < 1:
            text += f"  {format_duration((now - self._task_began) * (1 - share) / share)} left"
        self._write(text, stays=not self._changes)

    def report(self, report: Report) -> None:
        """Show the line of a training; what is measured on held-out text stays."""
        if report.note is not None:
            for line in report.note.splitlines():
                self._write(f"note: {line}", stays=True)
        stays = report.valid_loss is not None or report.step == report.steps
        if stays or self._clock() >= self._next:
            self._write(str(report), stays=stays or not self._changes)

    def close(self) -> None:
        """Clear a line that could still change."""
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _write(self, text: str, *, stays: bool) -> None:
        if not stays:  # a line that the terminal folds could not be written over
            text = text[: shutil.get_terminal_size().columns - 1]
        over = "\r" if self._width else ""
        self._stream.write(over + text.ljust(self._width) + "\n" * stays)
        self._stream.flush()
        self._width = 0 if stays else len(text)
        self._next = self._clock() + (_CHANGES if self._changes else _LINES)
