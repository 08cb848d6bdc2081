"""How good corrections are: errors before and after, the share of errors that are fixed and of right words that are
broken, GLEU, and F0.5 of edits.

Words are aligned with a reference's by a shortest edit script, of the text before and after alike. With several
references, each counts alike. Intervals are bootstrapped over texts.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.evaluation.errant_scores import edit_statistics, f_half
from chainrule.evaluation.error_rates import CharacterErrors, WordErrors
from chainrule.evaluation.gleu import drawn_statistics, expected_gleu, gleu_of_sums, gleu_statistics
from chainrule.evaluation.resampling import interval_of_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.evaluation.errant_scores import Edit
    from chainrule.evaluation.error_rates import CorpusMeasure
    from chainrule.evaluation.judged_changes import JudgedChanges

_DRAWS_IN_INTERVALS = 16  # of references, for each resample


class Figure(NamedTuple):
    """A figure and its 95 % interval."""

    value: float
    interval: tuple[float, float]

    def percent(self) -> str:
        """12.34 % (11.20 to 13.50)."""
        low, high = (f"{100 * bound:.2f}" for bound in self.interval)
        return f"{100 * self.value:.2f} % ({low} to {high})"


class CorrectionMeasures(NamedTuple):
    """word_errors, character_errors, gleu: before and after; shares, not percent. fixed: of the wrong words, those that
    are right afterwards. broken: of the right words, those that are wrong afterwards. words: of the references.

    f_half: of edits, by errant, where it was asked for. changes: each with its probability and what it is worth.
    """

    word_errors: tuple[Figure, Figure]
    character_errors: tuple[Figure, Figure]
    gleu: tuple[Figure, Figure]
    fixed: Figure
    broken: Figure
    words: int
    f_half: Figure | None = None
    changes: JudgedChanges | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """For a table: name, before, after."""
        both = (("word error rate", self.word_errors), ("character error rate", self.character_errors))
        rows = [(name, before.percent(), after.percent()) for name, (before, after) in (*both, ("GLEU", self.gleu))]
        rows += [("wrong words fixed", "", self.fixed.percent()), ("right words broken", "", self.broken.percent())]
        if self.f_half is not None:
            rows.append(("F0.5 of edits (errant)", "", self.f_half.percent()))
        return [(f"{self.words:,} words", "before", "after"), *rows]


def measure_corrections(
    texts: Sequence[str],
    corrected: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    edits: Callable[[str, str], frozenset[Edit]] | None = None,
) -> CorrectionMeasures:
    """texts: as they were given. corrected: one for each. references: one for each, or several lists of such.

    edits: what cuts a correction into edits, for F0.5: `errant_scores.errant_edits()`. Raises SettingError where the
    numbers of texts differ.
    """
    several = references if references and not isinstance(references[0], str) else [references]
    lists = [[str(text) for text in one] for one in several]
    for one in (corrected, *lists):
        if len(one) != len(texts):
            raise SettingError(f"there are {len(texts):,} texts, but {len(one):,} of another list; give one for each")
    counts = np.sum([_word_counts(texts, corrected, one) for one in lists], axis=0)
    return CorrectionMeasures(
        word_errors=(_rate(WordErrors(), texts, lists), _rate(WordErrors(), corrected, lists)),
        character_errors=(_rate(CharacterErrors(), texts, lists), _rate(CharacterErrors(), corrected, lists)),
        gleu=(_gleu(texts, texts, lists), _gleu(texts, corrected, lists)),
        fixed=_figure([counts[:, :2]], _share),
        broken=_figure([counts[:, 2:]], _share),
        words=sum(len(text.split()) for one in lists for text in one),
        f_half=None if edits is None else _figure([edit_statistics(texts, corrected, lists, edits)], f_half),
    )


def _rate(measure: CorpusMeasure, texts: Sequence[str], references: Sequence[Sequence[str]]) -> Figure:
    return _figure([np.sum([measure.statistics(texts, one) for one in references], axis=0)], measure.value)


def _gleu(texts: Sequence[str], corrected: Sequence[str], references: Sequence[Sequence[str]]) -> Figure:
    statistics = np.array([gleu_statistics(texts, corrected, one) for one in references], np.float64)

    def of_draws(*sums: Float64[ndarray, "resamples 10"]) -> Float64[ndarray, " resamples"]:
        return gleu_of_sums(np.array(sums)).mean(axis=0) / 100

    drawn = drawn_statistics(statistics, _DRAWS_IN_INTERVALS)
    return Figure(expected_gleu(statistics) / 100, interval_of_sums(drawn, of_draws))


def _figure(statistics: list[Int64[ndarray, "texts statistics"]], value: Callable[..., ndarray]) -> Figure:
    point = value(*(rows.sum(axis=0).astype(np.float64) for rows in statistics))
    return Figure(float(point), interval_of_sums(statistics, value))


def _share(sums: Float64[ndarray, "*several 2"]) -> Float64[ndarray, "*several"]:
    return sums[..., 0] / np.maximum(sums[..., 1], 1)


def _word_counts(
    texts: Sequence[str], corrected: Sequence[str], references: Sequence[str]
) -> Int64[ndarray, "texts 4"]:
    """Wrong words that are right afterwards, wrong words; right words that are wrong afterwards, right words."""
    rows = np.zeros((len(texts), 4), np.int64)
    for row, text, result, reference in zip(rows, texts, corrected, references, strict=True):
        meant = reference.split()
        was = np.array(_right_words(text.split(), meant), np.bool_)
        now = np.array(_right_words(result.split(), meant), np.bool_)
        row[:] = (~was & now).sum(), (~was).sum(), (was & ~now).sum(), was.sum()
    return rows


def _right_words(words: list[str], reference: list[str]) -> list[bool]:
    """Of the reference's words, whether each stands in the text, too."""
    matcher = SequenceMatcher(None, words, reference, autojunk=False)
    stands = [False] * len(reference)
    for block in matcher.get_matching_blocks():
        stands[block.b : block.b + block.size] = [True] * block.size
    return stands
