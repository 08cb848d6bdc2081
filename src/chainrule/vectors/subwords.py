"""Words as sets of their characters' n-grams (Bojanowski 2017), numbered as in fastText's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.text.corpus.block import byte_array
from chainrule.vectors.subword_kernels import ngram_buckets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray


MOST_CHARACTERS = 1000  # of an n-gram


class Ngrams(NamedTuple):
    """How long n-grams of characters are, at least and at most, and how many buckets they are hashed to."""

    shortest: int
    longest: int
    buckets: int

    @property
    def is_sound(self) -> bool:
        """Whether these may be numbers of a training, not of a damaged file."""
        return 1 <= self.shortest <= self.longest < MOST_CHARACTERS and 1 <= self.buckets < 1 << 31

    def of(self, word: bytes) -> Int64[ndarray, " ngrams"]:
        """The buckets of a word's n-grams, in fastText's order."""
        text = byte_array(b"<" + word + b">")
        found = np.empty(text.size * (self.longest - self.shortest + 1), np.int64)
        return found[: ngram_buckets(text, 0, text.size, self.shortest, self.longest, self.buckets, found)]


class Units(NamedTuple):
    """What of a model's input rows is a part of each word: its own, then its n-grams'.

    starts: where those of each word begin. seen: the buckets that words of the vocabulary have, rising: the row of
    seen[k] is the number of words + k.
    """

    starts: Int64[ndarray, " words+1"]
    rows: Int32[ndarray, " units"]
    seen: Int64[ndarray, " buckets"]


def units_of(words: Sequence[bytes], ngrams: Ngrams | None) -> Units:
    """Of the words of a vocabulary. Without n-grams, each is its own only unit."""
    own = np.arange(len(words), dtype=np.int64)
    if ngrams is None:
        return Units(np.arange(len(words) + 1, dtype=np.int64), own.astype(np.int32), np.empty(0, np.int64))
    parts = [ngrams.of(word) for word in words]
    starts = np.concatenate([[0], np.cumsum([1 + part.size for part in parts])]).astype(np.int64)
    rows = np.empty(starts[-1], np.int64)
    is_own = np.zeros(rows.size, bool)
    is_own[starts[:-1]] = True
    seen, places = np.unique(np.concatenate(parts), return_inverse=True)
    rows[is_own], rows[~is_own] = own, len(words) + places
    return Units(starts, rows.astype(np.int32), seen)


def means_of(
    units: Units, inputs: Float32[ndarray, "rows D"], rows: ndarray | None = None
) -> Float32[ndarray, "words D"]:
    """The vector of each word: the mean of its units'. rows: of the inputs, the row of each unit."""
    rows = units.rows if rows is None else rows
    means = np.empty((units.starts.size - 1, inputs.shape[1]), np.float32)
    for start in range(0, len(means), 1 << 12):
        edges = units.starts[start : start + (1 << 12) + 1]
        summed = np.add.reduceat(inputs[rows[edges[0] : edges[-1]]], edges[:-1] - edges[0])
        means[start : start + len(summed)] = summed / np.diff(edges)[:, None].astype(np.float32)
    return means
