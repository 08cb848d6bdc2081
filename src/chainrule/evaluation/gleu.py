"""GLEU, the measure of corrections: BLEU whose n-grams lose credit where the text they correct has them and the
reference does not.

Napoles, Sakaguchi, Post and Tetreault, Ground Truth for Grammatical Error Correction Metrics, 2015, as revised in GLEU
Without Tuning, 2016: of several references one is drawn at random for each text, and the mean taken over many draws.
Tokens are what white space separates.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

DRAWS = 500  # of references; the seed of draw j is SEED_STEP j, as in the authors' script
SEED_STEP = 101
_ORDER = 4


def gleu_statistics(
    texts: Sequence[str], corrected: Sequence[str], references: Sequence[str]
) -> Int64[ndarray, "texts 10"]:
    """Lengths of the corrected text and the reference, then, for orders 1 to 4, credited and all n-grams."""
    rows = np.zeros((len(texts), 2 + 2 * _ORDER), np.int64)
    for row, *sides in zip(rows, texts, corrected, references, strict=True):
        source, result, reference = (side.split() for side in sides)
        row[:2] = len(result), len(reference)
        for order in range(1, _ORDER + 1):
            ours, meant, wrong = (_word_ngrams(words, order) for words in (result, reference, source))
            credit = sum(
                min(count, meant[ngram]) if ngram in meant else -min(count, wrong[ngram])
                for ngram, count in ours.items()
            )
            row[2 * order], row[2 * order + 1] = max(credit, 0), ours.total()
    return rows


def gleu_of_sums(sums: Float64[ndarray, "*several 10"]) -> Float64[ndarray, "*several"]:
    """GLEU of 0 .. 100 from sums of statistics; 0 where an order has no credit."""
    sums = np.asarray(sums, np.float64)
    length, reference = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(sums[..., 2::2] / sums[..., 3::2]).mean(axis=-1)
        score = 100 * np.exp(np.minimum(0.0, 1 - reference / length) + mean)
    return np.where((sums > 0).all(axis=-1), score, 0.0)


def drawn_statistics(
    statistics: Float64[ndarray, "references texts 10"], draws: int = DRAWS
) -> list[Float64[ndarray, "texts 10"]]:
    """Statistics of the texts with the references of each draw."""
    references, texts, _ = statistics.shape
    if references == 1:
        return [statistics[0]]
    rows = np.arange(texts)
    return [statistics[_drawn(references, texts, draw), rows] for draw in range(draws)]


def expected_gleu(statistics: Float64[ndarray, "references texts 10"], draws: int = DRAWS) -> float:
    """The mean of the GLEU of the corpus over random draws of references."""
    sums = np.array([rows.sum(axis=0) for rows in drawn_statistics(statistics, draws)])
    return float(gleu_of_sums(sums).mean())


def _drawn(references: int, texts: int, draw: int) -> Int64[ndarray, " texts"]:
    rng = random.Random(draw * SEED_STEP)
    return np.array([rng.randint(0, references - 1) for _ in range(texts)], np.int64)


def _word_ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(order)), strict=False))
