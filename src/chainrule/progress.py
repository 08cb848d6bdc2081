"""How long work tells of its progress: it calls a function now and then.

Who shows the progress, and how, is the caller's business.
"""

from typing import Protocol


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float | None) -> None:
        """`done` of `total` units of `task` are finished; a total of None is not known yet."""


def silent(task: str, done: float, total: float | None) -> None:
    """Tells nobody."""
