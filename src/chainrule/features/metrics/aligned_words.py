"""The words of a text beside those of its reference, by the fewest errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

SAME, SUBSTITUTED, DELETED, INSERTED = "same", "substituted", "deleted", "inserted"


class AlignedWord(NamedTuple):
    """A word of a reference and one of a text; None where there is none. kind: same, or the error that it is."""

    kind: str
    said: str | None
    written: str | None


def align_words(text: str, reference: str) -> list[AlignedWord]:
    """Return the words of a text beside those of its reference, with as few errors as there can be (Levenshtein 1965).

    Of several such alignments, words are substituted as late as possible.
    """
    ours, theirs = text.split(), reference.split()
    errors = np.zeros((len(theirs) + 1, len(ours) + 1), np.int64)  # of the first i words said, and j written
    errors[:, 0], errors[0] = np.arange(len(theirs) + 1), np.arange(len(ours) + 1)
    places = np.arange(len(ours) + 1)
    for i, said in enumerate(theirs, 1):
        differs = np.fromiter((own != said for own in ours), np.int64, len(ours))
        row = np.append(i, np.minimum(errors[i - 1, 1:] + 1, errors[i - 1, :-1] + differs))
        errors[i] = np.minimum.accumulate(row - places) + places  # words written more, from the left
    aligned: list[AlignedWord] = []
    i, j = len(theirs), len(ours)
    while i or j:
        if i and j and errors[i, j] == errors[i - 1, j - 1] + (theirs[i - 1] != ours[j - 1]):
            i, j = i - 1, j - 1
            aligned.append(AlignedWord(SAME if theirs[i] == ours[j] else SUBSTITUTED, theirs[i], ours[j]))
        elif i and errors[i, j] == errors[i - 1, j] + 1:
            i -= 1
            aligned.append(AlignedWord(DELETED, theirs[i], None))
        else:
            j -= 1
            aligned.append(AlignedWord(INSERTED, None, ours[j]))
    return aligned[::-1]


def shown_alignment(words: Sequence[AlignedWord]) -> str:
    """Return aligned words as a line: the, [dog -> dock], [- ran], [+ fast]."""
    shown = {
        SAME: "{said}",
        SUBSTITUTED: "[{said} -> {written}]",
        DELETED: "[- {said}]",
        INSERTED: "[+ {written}]",
    }
    return " ".join(shown[word.kind].format(said=word.said, written=word.written) for word in words)
