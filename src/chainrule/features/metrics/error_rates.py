"""Word and character error rates: the edit distance of texts to their references, divided by the references' lengths.

The statistics of texts are whole numbers that add up over a corpus, so that the rate of any set of texts is a function
of their sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.features.metrics.edit_kernels import edit_distances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray


class CorpusMeasure(Protocol):
    """A measure that compares texts with their references, computed from statistics that add up over texts."""

    name: str
    short: str  # in tables
    lower_is_better: bool

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts statistics"]:
        """Return one row for each text and its reference."""

    def value(self, sums: Float64[ndarray, "*several statistics"]) -> Float64[ndarray, "*several"]:
        """Return the measure of corpora, from the sums of their texts' statistics."""


class WordErrors:
    """Word error rate. Words are separated by white space."""

    name, short = "word error rate", "WER"
    lower_is_better = True

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 2"]:
        """Return errors, and words of the reference."""
        ids: dict[str, int] = {}
        ours = [[ids.setdefault(word, len(ids)) for word in text.split()] for text in texts]
        theirs = [[ids.setdefault(word, len(ids)) for word in text.split()] for text in _distinct(references)]
        return _errors([np.array(row, np.int32) for row in ours], _repeated(theirs, references))

    def value(self, sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
        return _rate(sums)


class CharacterErrors:
    """Character error rate. Characters are code points; a run of white space counts as one space."""

    name, short = "character error rate", "CER"
    lower_is_better = True

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 2"]:
        """Return errors, and characters of the reference."""
        ours = [_code_points(text) for text in texts]
        theirs = [_code_points(text) for text in _distinct(references)]
        return _errors(ours, _repeated(theirs, references))

    def value(self, sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
        return _rate(sums)


def _distinct(references: Sequence[str]) -> list[str]:
    """Return the distinct references: hypotheses of one list share theirs, which is then split only once."""
    return list(dict.fromkeys(references))


def _repeated(rows: Sequence[Sequence[int] | Int32[ndarray, " units"]], references: Sequence[str]) -> list[ndarray]:
    """Return the row of each reference, from the rows of the distinct ones."""
    by_text = {text: np.asarray(row, np.int32) for text, row in zip(_distinct(references), rows, strict=True)}
    return [by_text[text] for text in references]


def _code_points(text: str) -> Int32[ndarray, " characters"]:
    spaced = " ".join(text.split())
    return np.frombuffer(spaced.encode("utf-32-le", "surrogatepass"), np.int32)


def _errors(ours: list[ndarray], theirs: list[ndarray]) -> Int64[ndarray, "texts 2"]:
    errors = np.zeros((len(ours), 2), np.int64)
    (our_units, our_offsets), (their_units, their_offsets) = _join(ours), _join(theirs)
    distances = np.empty(len(ours), np.int64)
    edit_distances(our_units, our_offsets, their_units, their_offsets, distances)
    errors[:, 0], errors[:, 1] = distances, np.diff(their_offsets)
    return errors


def _join(rows: list[ndarray]) -> tuple[Int32[ndarray, " units"], Int64[ndarray, " rows+1"]]:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
    return np.concatenate([np.empty(0, np.int32), *rows]), offsets


def _rate(sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
    """Return errors / units. If all references are empty: 0 without errors, infinity with some."""
    errors, units = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0.0, errors / units)
