"""Changes of texts, and texts with their changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Change(NamedTuple):
    """A correction of a part of a text. start, stop: in characters of the original text."""

    start: int
    stop: int
    before: str
    after: str
    prob: float  # of this change, among the paths that the beam kept


class Corrected(NamedTuple):
    """A text, its correction, and where they differ. note: the reason why nothing was changed, if there is one."""

    text: str
    corrected: str
    changes: tuple[Change, ...]
    note: str | None = None

    def with_changes(self, changes: Iterable[Change]) -> str:
        """The text with only these changes applied."""
        return apply_changes(self.text, changes)


def apply_changes(text: str, changes: Iterable[Change]) -> str:
    """A text with changes applied. changes: in the order of the text."""
    parts, end = [], 0
    for change in changes:
        parts += [text[end : change.start], change.after]
        end = change.stop
    return "".join([*parts, text[end:]])
