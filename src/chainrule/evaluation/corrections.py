"""How good corrections are: errors before and after, the share of errors that are fixed, and of right words that are
broken.

Words are aligned with the reference's by a shortest edit script, of the text before and after alike.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.evaluation.error_rates import CharacterErrors, WordErrors

if TYPE_CHECKING:
    from collections.abc import Sequence


class CorrectionMeasures(NamedTuple):
    """word_errors, character_errors: rates before and after. fixed: share of the wrong words that are right afterwards.

    broken: share of the right words that are wrong afterwards. words: of the references.
    """

    word_errors: tuple[float, float]
    character_errors: tuple[float, float]
    fixed: float
    broken: float
    words: int

    def rows(self) -> list[tuple[str, str, str]]:
        """For a table: name, before, after."""
        return [
            (f"{self.words:,} words", "before", "after"),
            *(
                (name, f"{before:.2%}", f"{after:.2%}")
                for name, (before, after) in (
                    ("word error rate", self.word_errors),
                    ("character error rate", self.character_errors),
                )
            ),
            ("wrong words fixed", "", f"{self.fixed:.2%}"),
            ("right words broken", "", f"{self.broken:.2%}"),
        ]


def measure_corrections(
    texts: Sequence[str], corrected: Sequence[str], references: Sequence[str]
) -> CorrectionMeasures:
    """texts: as they were given. corrected, references: one for each."""
    rates = []
    for measure in (WordErrors(), CharacterErrors()):
        before, after = (
            float(measure.value(measure.statistics(list(side), list(references)).sum(axis=0).astype(np.float64)))
            for side in (texts, corrected)
        )
        rates.append((before, after))
    wrong = fixed = right = broken = words = 0
    for text, result, reference in zip(texts, corrected, references, strict=True):
        meant = reference.split()
        was, is_now = _right_words(text.split(), meant), _right_words(result.split(), meant)
        words += len(meant)
        right += sum(was)
        wrong += len(meant) - sum(was)
        fixed += sum(now and not before for before, now in zip(was, is_now, strict=True))
        broken += sum(before and not now for before, now in zip(was, is_now, strict=True))
    return CorrectionMeasures(rates[0], rates[1], fixed / max(wrong, 1), broken / max(right, 1), words)


def _right_words(words: list[str], reference: list[str]) -> list[bool]:
    """Of the reference's words, whether each stands in the text, too."""
    matcher = SequenceMatcher(None, words, reference, autojunk=False)
    stands = [False] * len(reference)
    for block in matcher.get_matching_blocks():
        stands[block.b : block.b + block.size] = [True] * block.size
    return stands
