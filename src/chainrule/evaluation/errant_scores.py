"""The share of edits that are right, and of right edits that are made, by ERRANT (Bryant, Felice and Briscoe 2017).

The package errant cuts a correction into edits; an edit is right if an annotator has the same one: the same tokens
become the same others. Of a text's annotators, the one counts with whom F0.5 is highest. The package is optional, and
imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray


class Edit(NamedTuple):
    """Tokens start to stop of a text that become others."""

    start: int
    stop: int
    after: str


def has_errant() -> bool:
    """Whether the package errant is installed."""
    return find_spec("errant") is not None


def errant_edits() -> Callable[[str, str], frozenset[Edit]]:
    """What cuts a correction into edits: of a text and a corrected one. Raises SettingError where errant is lacking."""
    if not has_errant():
        raise SettingError(
            "F0.5 of edits needs the package errant and a model of spaCy: pip install errant, "
            "python -m spacy download en_core_web_sm"
        )
    errant: Any = import_module("errant")
    try:
        annotator = errant.load("en")
    except OSError as error:
        raise SettingError(f"errant cannot be used: {str(error).splitlines()[0]}") from error

    def edits(text: str, corrected: str) -> frozenset[Edit]:
        found = annotator.annotate(annotator.parse(text), annotator.parse(corrected))
        return frozenset(Edit(one.o_start, one.o_end, one.c_str) for one in found)

    return edits


def edit_statistics(
    texts: Sequence[str],
    corrected: Sequence[str],
    references: Sequence[Sequence[str]],
    edits: Callable[[str, str], frozenset[Edit]],
) -> Int64[ndarray, "texts 3"]:
    """Right edits, wrong ones, and those that lack. references: of each annotator, a text for each."""
    rows = np.zeros((len(texts), 3), np.int64)
    total = np.zeros(3, np.int64)
    for row, text, result, *meant in zip(rows, texts, corrected, *references, strict=True):
        ours = edits(text, result)
        options = [_counts(ours, edits(text, one)) for one in dict.fromkeys(meant)]
        # As the authors' script: the annotator with whom the figure of the corpus so far is highest.
        row[:] = max(options, key=lambda one: (f_half(total + one), one[0], -one[1], -one[2]))
        total += row
    return rows


def _counts(ours: frozenset[Edit], theirs: frozenset[Edit]) -> Int64[ndarray, " 3"]:
    return np.array([len(ours & theirs), len(ours - theirs), len(theirs - ours)], np.int64)


def f_half(sums: Float64[ndarray, "*several 3"]) -> Float64[ndarray, "*several"]:
    """F0.5: precision counts twice as much as recall. 1 where there is nothing to do and nothing is done."""
    sums = np.asarray(sums, np.float64)
    right, wrong, lacking = sums[..., 0], sums[..., 1], sums[..., 2]
    everything = 1.25 * right + wrong + 0.25 * lacking
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(everything == 0, 1.0, 1.25 * right / everything)
