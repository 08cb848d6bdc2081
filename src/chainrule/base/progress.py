"""Progress reporting: long operations call back at intervals. The caller decides whether and how to show it."""

from contextvars import ContextVar
from typing import Protocol

# When the command that runs began, by the monotonic clock: its budgets of minutes count from there. None: in Python.
COMMAND_BEGAN: ContextVar[float | None] = ContextVar("COMMAND_BEGAN", default=None)


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float | None) -> None:
        """Report that `done` of `total` units of `task` are finished. total: None if it is not known yet."""


class BlockProgress:
    """Reports progress inside the blocks of a source, which by itself reports only at the end of each block.

    good:  block_progress = BlockProgress(progress, "adding noise")
           for block in source.blocks(block_progress, "adding noise"): ...; block_progress.report(1 << 20); ...
    """

    def __init__(self, progress: Progress, task: str) -> None:
        self._progress, self._task = progress, task
        self._done = 0.0
        self._total: float | None = None

    def __call__(self, task: str, done: float, total: float | None) -> None:
        self._task, self._done, self._total = task, done, total
        self._progress(task, done, total)

    def report(self, size: float) -> None:
        """Report that `size` bytes are finished since the end of the last block."""
        done = self._done + size
        self._progress(self._task, done if self._total is None else min(done, self._total), self._total)


def silent(task: str, done: float, total: float | None) -> None:
    """Ignore progress."""


def format_duration(seconds: float) -> str:
    """Return minutes and seconds, with hours if there are any: 1:05, 1:00:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
