"""How long work tells of its progress: a function that is called now and then. Who shows it, and how, is the caller's business."""

from typing import Protocol


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float | None) -> None:
        """`done` of `total` units of `task` are finished; a total of None is not known yet."""


def silent(task: str, done: float, total: float | None) -> None:
    """Tells nobody."""
