"""Sets of words that the search follows letter by letter: those that a language model knows, and those expected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.features.speech.search.config import DEFAULTS
from chainrule.features.speech.search.words_kernels import add_words, child_of
from chainrule.text.lookup import looked_up

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jaxtyping import Int64
    from numpy import ndarray

CODE_POINTS = "utf-32-le"  # a number for each character


class Words:
    """A set of words as a trie, for the search."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = [word for word in dict.fromkeys(words) if word]
        sizes = np.fromiter(map(len, self.words), np.int64, len(self.words))
        self.offsets = np.concatenate([[0], np.cumsum(sizes)])
        self.codes = code_points("".join(self.words))
        room = int(self.codes.size) + 1
        self.slots = np.full(table_size(room), -1, np.int32)
        self.trie = np.zeros((room, 2), np.int32)
        self.shortest, self.ends = np.zeros(room, np.int32), np.zeros(room, np.int32)
        self.size = add_words(self.codes, self.offsets, self.trie, self.slots, self.shortest, self.ends)

    def has_node(self, prefix: str) -> bool:
        """Return whether a word begins like this."""
        return self._node(prefix) >= 0 and self.size > 1

    def shortest_after(self, prefix: str) -> int:
        """Return the length of the shortest word that begins like this, or 0."""
        node = self._node(prefix)
        return int(self.shortest[node]) if node > 0 else 0

    def _node(self, prefix: str) -> int:
        node = 0
        for code in code_points(prefix).tolist():
            node = child_of(self.trie, self.slots, node, code)
            if node < 0:
                break
        return node


def code_points(text: str) -> Int64[ndarray, " characters"]:
    return np.frombuffer(text.encode(CODE_POINTS, "surrogatepass"), np.int32).astype(np.int64)


def table_size(room: int) -> int:
    return 1 << max(4, (2 * room).bit_length())


NO_WORDS = Words(())


@dataclass(frozen=True)
class Hotwords:
    """Words that are expected. weight: what each adds to the score of a text; beginnings add a part of it."""

    words: Words = NO_WORDS
    weight: float = 0.0

    @classmethod
    def of(cls, phrases: Iterable[str] | None, weight: float = DEFAULTS.hotword_weight) -> Hotwords:
        """Return the hotwords in phrases.

        phrases: of one or more words, each of which counts, as it is written and in looked-up form.
        """
        words = [form for phrase in phrases or () for word in phrase.split() for form in (word, looked_up(word))]
        return cls(Words(words), float(weight)) if words else cls()
