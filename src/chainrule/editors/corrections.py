"""Corrections of the paragraphs of open documents: each is corrected once, and found again by its text."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.applications.correction.changes import Change
    from chainrule.applications.correction.corrector import Corrector

_MOST_PARAGRAPHS = 1 << 12
_LONE_RETURN = re.compile(r"\r(?!\n)")


class Corrections:
    """The changes that a corrector makes in paragraphs."""

    def __init__(self, corrector: Corrector, kept: Iterable[str] = ()) -> None:
        """kept: words that are left alone."""
        self.corrector = corrector
        self._kept = {word.lower() for word in kept}
        self._changes: OrderedDict[str, tuple[Change, ...]] = OrderedDict()

    def knows(self, paragraph: str) -> bool:
        """Whether `changes` has an answer."""
        return paragraph in self._changes

    def changes(self, paragraph: str) -> list[Change]:
        """The changes of a paragraph, in its order; none before `correct`."""
        return [change for change in self._changes.get(paragraph, ()) if change.before.lower() not in self._kept]

    def correct(self, paragraph: str) -> None:
        """Corrects a paragraph, and forgets the one that was corrected first if there are too many."""
        [corrected] = self.corrector.correct([_LONE_RETURN.sub("\n", paragraph)])
        self._changes[paragraph] = corrected.changes
        if len(self._changes) > _MOST_PARAGRAPHS:
            self._changes.popitem(last=False)

    def keep(self, word: str) -> None:
        """Leaves a word alone from now on."""
        self._kept.add(word.lower())
