"""How long work tells of its progress: it calls a function now and then.

Who shows the progress, and how, is the caller's business.
"""

from typing import Protocol


class Progress(Protocol):
    def __call__(self, task: str, done: float, total: float | None) -> None:
        """`done` of `total` units of `task` are finished; a total of None is not known yet."""


class BlockProgress:
    """A progress to give to a source, which itself only tells where it is after each block: this tells on the way, too.

    good:  inside = BlockProgress(progress, "spoiling")
           for block in source.blocks(inside, "spoiling"): ...; inside.tell(1 << 20); ...
    """

    def __init__(self, progress: Progress, task: str) -> None:
        self._progress, self._task = progress, task
        self._done = 0.0
        self._total: float | None = None

    def __call__(self, task: str, done: float, total: float | None) -> None:
        self._task, self._done, self._total = task, done, total
        self._progress(task, done, total)

    def tell(self, size: float) -> None:
        """So many bytes are finished since the source told where it is."""
        done = self._done + size
        self._progress(self._task, done if self._total is None else min(done, self._total), self._total)


def silent(task: str, done: float, total: float | None) -> None:
    """Tells nobody."""


def clock_of(seconds: float) -> str:
    """Minutes and seconds, with hours before them where there are any: 1:05, 1:00:05."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
