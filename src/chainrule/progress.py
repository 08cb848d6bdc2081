"""How long work tells of its progress: it calls a function now and then.

Who shows the progress, and how, is the caller's business.
"""

from typing import Protocol


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float | None) -> None:
        """`done` of `total` units of `task` are finished; a total of None is not known yet."""


def silent(task: str, done: float, total: float | None) -> None:
    """Tells nobody."""


def clock_of(seconds: float) -> str:
    """Minutes and seconds, with hours before them where there are any: 1:05, 1:00:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
