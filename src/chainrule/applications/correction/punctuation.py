"""What may have been meant by the marks around a word: other marks, or none, by a channel that knows of marks.

A scan shows signs where there is nothing, and a comma for a full stop: errors of the same channel as those of letters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chainrule.applications.correction.errors import ErrorModel

_MARKS = ".,;:!?'\"-"
_MOST = 4  # alternatives for the marks on one side
_LONGEST = 4  # marks; more are left alone
_WITHIN = 8.0  # nats: a context rarely favours other marks by more
_EACH = 2.5  # nats that a mark costs without a context: about one word in twelve has it


class Marks:
    """The likeliest alternatives for marks, remembered."""

    def __init__(self, errors: ErrorModel) -> None:
        self._errors = errors
        self._known: dict[str, list[tuple[str, float]]] = {}

    def alternatives(self, marks: str) -> list[tuple[str, float]]:
        """Others that may have been meant, and log P(marks | other) - log P(marks | marks)."""
        if marks not in self._known:
            self._known[marks] = self._best(marks)
        return self._known[marks]

    def _best(self, marks: str) -> list[tuple[str, float]]:
        if len(marks) > _LONGEST:
            return []
        others = sorted(set(_within_one_edit(marks)) - {marks})
        log_probs = self._errors.log_probs_of_marks([marks] * (len(others) + 1), [*others, marks])
        more = log_probs[:-1] - log_probs[-1]
        scores = more - _EACH * np.array([len(other) - len(marks) for other in others])
        best = np.argsort(-scores, kind="stable")[:_MOST].tolist()
        return [(others[i], float(more[i])) for i in best if scores[i] > -_WITHIN]


def _within_one_edit(marks: str) -> Iterable[str]:
    """Less one mark, and if all are usual ones, with one more, or another in the place of one."""
    usual = _MARKS if all(mark in _MARKS for mark in marks) else ""
    for i in range(len(marks) + 1):
        yield from (marks[:i] + mark + marks[i:] for mark in usual)
        if i < len(marks):
            yield marks[:i] + marks[i + 1 :]
            yield from (marks[:i] + mark + marks[i + 1 :] for mark in usual)
