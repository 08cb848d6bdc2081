"""Output of all verbs: progress and notes on standard error, results on standard output."""

from __future__ import annotations

import json
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chainrule.base.results import finite as finite
from chainrule.base.tables import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from chainrule.ngram.config import DiskPlan

PATIENCE = 2.0  # seconds before progress is shown
LINE_PATIENCE = 30.0  # seconds between lines of progress, where there is no terminal


def note(message: str) -> None:
    print(f"note: {printable(message)}", file=sys.stderr)


_AT_END: list[Callable[[], None]] = []  # what has something to note when the command has ended


def note_at_end(function: Callable[[], None]) -> None:
    """Calls a function that prints notes when the command has ended, unless it fails."""
    _AT_END.append(function)


def end_notes(*, shown: bool = True) -> None:
    """Prints the notes of the end, or forgets those of a command that failed."""
    while _AT_END:
        function = _AT_END.pop(0)
        if shown:
            function()


def note_plan(plan: DiskPlan) -> None:
    """Says what counting on disk will take, before it begins."""
    note(str(plan))


def print_json(value: Any) -> None:
    """Prints one line of valid JSON; infinities must be null already."""
    print(json.dumps(value, ensure_ascii=not writes_utf8(), allow_nan=False))


def writes_utf8() -> bool:
    """Whether standard output is in UTF-8."""
    return (sys.stdout.encoding or "").lower().replace("_", "-") in ("utf-8", "utf8")


@contextmanager
def progress_bar() -> Iterator[Bar]:
    """Shows a progress bar with the time left, after PATIENCE seconds, where standard error is a terminal."""
    _announce_compilation()
    bar = Bar()
    try:
        yield bar
    finally:
        bar.close()


class Bar:
    """A Progress that draws a bar; after `close`, the next report opens it again."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.task = ""
        self.task_id: TaskID | None = None
        self.rich: RichProgress | None = None
        self.latest: tuple[str, float, float | None] = "", 0.0, None
        self.timer: threading.Timer | None = None
        self.lock = threading.RLock()
        self.written = self.began

    def __call__(self, task: str, done: float, total: float | None) -> None:
        with self.lock:
            self.latest = task, done, total
            if self.rich is None:
                if not sys.stderr.isatty():
                    self._write_line(task, done, total)
                    return
                patience_left = PATIENCE - (time.monotonic() - self.began)
                if patience_left > 0:
                    self._wait(patience_left)
                    return
                self.rich = _rich_progress()
                self.rich.start()
            if task != self.task or self.task_id is None:
                self._finish()
                self.task, self.task_id = task, self.rich.add_task(task, total=total)
            self.rich.update(self.task_id, completed=done, total=total)

    def _write_line(self, task: str, done: float, total: float | None) -> None:
        """Writes a line now and then of what takes long, where there is no terminal."""
        if task != self.task:
            self.task, self.written = task, time.monotonic()
        if time.monotonic() - self.written > LINE_PATIENCE:
            self.written = time.monotonic()
            sys.stderr.write(f"{task}{f': {done / total:.0%}' if total else ''}\n")

    def _wait(self, seconds: float) -> None:
        """Shows the latest report once PATIENCE is over, since the next report of slow work may come much later."""
        if self.timer is None:
            self.timer = threading.Timer(seconds, self._show_latest)
            self.timer.daemon = True
            self.timer.start()

    def _show_latest(self) -> None:
        with self.lock:
            if self.timer is None or self.rich is not None:  # closed in the meantime, or already shown
                return
            task, done, total = self.latest
            if total is None or done < total:
                self(task, done, total)

    def _finish(self) -> None:
        """Shows the current task as done, whatever its last report was, since the work goes on or ends."""
        if self.rich is not None and self.task_id is not None:
            total = next((task.total for task in self.rich.tasks if task.id == self.task_id), None) or 1
            self.rich.update(self.task_id, completed=total, total=total)

    def close(self) -> None:
        with self.lock:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            if self.rich is not None:
                self._finish()
                self.rich.stop()
                self.rich, self.task, self.task_id = None, "", None


def _rich_progress() -> RichProgress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    return Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True), transient=True)


def _announce_compilation() -> None:
    from chainrule.base.jit import cache_folder, is_first_run

    if cache_folder() is None:
        note("compiling, up to half a minute; to keep the result, set CHAINRULE_CACHE to a folder that can be written")
    elif is_first_run():
        note("compiling for this machine; this happens once and takes 5 to 20 seconds")
