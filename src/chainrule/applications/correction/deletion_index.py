"""Finds the words within an edit distance of a text, without a scan of the vocabulary, by an index of deletions.

Two texts within distance d share a variant: what is left of each after deleting at most d characters. So the index
holds the variants of the words, and a query looks up its own (Garbe's SymSpell, 2012). Only the first characters make
variants, which keeps the index small; matches are exact, since the distance confirms each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.applications.channel.channel import joined
from chainrule.applications.correction.deletion_kernels import count_variants, store_variants, words_within
from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int32, Int64
    from numpy import ndarray

LONGEST = 60  # characters of a word or a text; longer ones match nothing
_ROOM = 1 << 16  # matches for which memory is allocated at once


class Matches(NamedTuple):
    """Words close to texts: those of text i are ends[i - 1] .. ends[i]."""

    words: Int32[ndarray, " matches"]
    distances: Int32[ndarray, " matches"]
    ends: Int64[ndarray, " texts"]

    def of(self, text: int) -> slice:
        return slice(self.ends[text - 1] if text else 0, self.ends[text])


class DeletionIndex:
    """Finds all words within a restricted Damerau-Levenshtein distance: a swap of neighbours counts as one error."""

    def __init__(self, words: Sequence[str], distance: int = 2) -> None:
        """words: numbered in this order; those longer than LONGEST match nothing. distance: 0 to 2.

        Raises SettingError.
        """
        if not 0 <= distance <= 2:
            raise SettingError(f"distance is {distance}; expected 0, 1 or 2")
        self._distance = distance
        self._words, self._offsets = joined([word if len(word) <= LONGEST else "" for word in words])
        entries = len(words) * (1, 8, 29)[distance]
        bits = max(1, entries.bit_length())
        self._shift = 64 - bits
        begins = np.zeros((1 << bits) + 1, np.int64)
        count_variants(self._words, self._offsets, distance, self._shift, begins)
        self._begins = np.cumsum(begins)
        self._tags = np.empty(self._begins[-1], np.uint32)
        self._owners = np.empty(self._begins[-1], np.int32)
        store_variants(
            self._words, self._offsets, distance, self._shift, self._begins[:-1].copy(), self._tags, self._owners
        )

    def within(self, texts: Sequence[str], distances: Sequence[int] | Int64[ndarray, " texts"]) -> Matches:
        """The words within distances[i] of each text i, in no order; a word matches itself.

        Raises SettingError if a distance is larger than that of the index.
        """
        most = np.array(distances, np.int64)
        if most.size and not 0 <= most.min() <= most.max() <= self._distance:
            raise SettingError(f"the distance is {most.max()}; expected 0 to {self._distance}, that of the index")
        characters, offsets = joined([text if len(text) <= LONGEST else "" for text in texts])
        ends = np.zeros(len(texts), np.int64)
        words: list[Int32[ndarray, " matches"]] = []
        distances_of_words: list[Int32[ndarray, " matches"]] = []
        first, room = 0, _ROOM
        while first < len(texts):
            matches, near = np.empty(room, np.int32), np.empty(room, np.int32)
            tables = self._begins, self._tags, self._owners, self._words, self._offsets
            stopped = words_within(
                characters, offsets, most, self._distance, self._shift, *tables, first, matches, near, ends
            )
            filled = int(ends[stopped - 1]) if stopped > first else 0
            ends[first:stopped] += sum(part.size for part in words)
            words.append(matches[:filled])
            distances_of_words.append(near[:filled])
            first, room = stopped, room if stopped > first else 4 * room
        if not words:
            return Matches(np.empty(0, np.int32), np.empty(0, np.int32), ends)
        return Matches(np.concatenate(words), np.concatenate(distances_of_words), ends)
