"""chrF (Popovic, chrF: character n-gram F-score for automatic MT evaluation, 2015) as sacreBLEU computes it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from chainrule.evaluation.bleu import check_bleu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

CHARACTER_ORDER = 6
BETA = 2


class Chrf:
    """Corpus chrF2 of 0 .. 100: character n-grams of orders 1 to 6, without white space, one reference."""

    name = short = "chrF"
    lower_is_better = False

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature. Raises SettingError if it is not installed."""
        check_bleu()
        from sacrebleu.metrics.chrf import CHRF

        metric = CHRF()
        metric.corpus_score(["a"], [["a"]])  # so that it knows the number of references
        return str(metric.get_signature())

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 18"]:
        """N-grams of the text, of the reference, and in both, for each order; none where one side has none."""
        rows = np.zeros((len(texts), CHARACTER_ORDER, 3), np.int64)
        for row, *sides in zip(rows, texts, references, strict=True):
            ours, theirs = ("".join(side.split()) for side in sides)
            for order in range(1, CHARACTER_ORDER + 1):
                counts, expected = _character_ngrams(ours, order), _character_ngrams(theirs, order)
                # sacreBLEU leaves the text's n-grams out where the reference is too short to have any
                row[order - 1] = counts.total() if expected else 0, expected.total(), (counts & expected).total()
        return rows.reshape(len(texts), -1)

    def value(self, sums: Float64[ndarray, "*several 18"]) -> Float64[ndarray, "*several"]:
        """F with beta 2 of the mean precision and the mean recall over the orders that both sides have."""
        sums = np.asarray(sums, np.float64)
        ours, theirs, both = np.moveaxis(sums.reshape(*sums.shape[:-1], CHARACTER_ORDER, 3), -1, 0)
        counted = (ours > 0) & (theirs > 0)
        orders = np.maximum(counted.sum(axis=-1), 1)
        precision = (counted * both / np.maximum(ours, 1)).sum(axis=-1) / orders
        recall = (counted * both / np.maximum(theirs, 1)).sum(axis=-1) / orders
        weighted = BETA**2 * precision + recall
        return 100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)


def _character_ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))
