"""Word and character error rates: the fewest edits that make texts their references, over the references' sizes.

A text's figures are whole numbers that add up over a corpus (its statistics), so that a rate of any choice of texts is
a function of sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.evaluation.edit_kernels import edit_distances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int32, Int64
    from numpy import ndarray


class CorpusMeasure(Protocol):
    """How good texts are beside their references, as a function of statistics that add up over texts."""

    name: str
    short: str  # in tables
    lower_is_better: bool

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts statistics"]:
        """A row for each text and the reference beside it."""

    def value(self, sums: Float64[ndarray, "*several statistics"]) -> Float64[ndarray, "*several"]:
        """The measure of corpora, from the sums of their texts' statistics."""


class WordErrors:
    """Word error rate: words are what stands between white space."""

    name, short = "word error rate", "WER"
    lower_is_better = True

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 2"]:
        """Errors, and words of the reference."""
        ids: dict[str, int] = {}
        ours = [[ids.setdefault(word, len(ids)) for word in text.split()] for text in texts]
        theirs = [[ids.setdefault(word, len(ids)) for word in text.split()] for text in _each_once(references)]
        return _errors([np.array(row, np.int32) for row in ours], _repeated(theirs, references))

    def value(self, sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
        return _rate(sums)


class CharacterErrors:
    """Character error rate: code points, a run of white space being one space."""

    name, short = "character error rate", "CER"
    lower_is_better = True

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 2"]:
        """Errors, and characters of the reference."""
        ours = [_code_points(text) for text in texts]
        theirs = [_code_points(text) for text in _each_once(references)]
        return _errors(ours, _repeated(theirs, references))

    def value(self, sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
        return _rate(sums)


def _each_once(references: Sequence[str]) -> list[str]:
    """The hypotheses of a list share their reference, so that it is cut once."""
    return list(dict.fromkeys(references))


def _repeated(cut: Sequence[Sequence[int] | Int32[ndarray, " units"]], references: Sequence[str]) -> list[ndarray]:
    by_text = {text: np.asarray(row, np.int32) for text, row in zip(_each_once(references), cut, strict=True)}
    return [by_text[text] for text in references]


def _code_points(text: str) -> Int32[ndarray, " characters"]:
    spaced = " ".join(text.split())
    return np.frombuffer(spaced.encode("utf-32-le", "surrogatepass"), np.int32)


def _errors(ours: list[ndarray], theirs: list[ndarray]) -> Int64[ndarray, "texts 2"]:
    found = np.zeros((len(ours), 2), np.int64)
    (our_units, our_offsets), (their_units, their_offsets) = _joined(ours), _joined(theirs)
    distances = np.empty(len(ours), np.int64)
    edit_distances(our_units, our_offsets, their_units, their_offsets, distances)
    found[:, 0], found[:, 1] = distances, np.diff(their_offsets)
    return found


def _joined(rows: list[ndarray]) -> tuple[Int32[ndarray, " units"], Int64[ndarray, " rows+1"]]:
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
    return np.concatenate([np.empty(0, np.int32), *rows]), offsets


def _rate(sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
    """Errors over units; of references that are all empty, 0 where there is no error, and infinite otherwise."""
    errors, units = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0.0, errors / units)
