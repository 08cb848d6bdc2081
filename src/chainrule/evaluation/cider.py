"""CIDEr-D, the measure of captions: cosines of tf-idf vectors of n-grams, clipped, with a penalty for length.

Vedantam, Zitnick and Parikh, CIDEr: Consensus-based Image Description Evaluation, 2015, section 5; figures equal those
of pycocoevalcap on the same tokens. An n-gram weighs log(pictures / pictures that have it in a reference), so a score
depends on the other pictures of the corpus, and is 0 for a single one.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    NGram = tuple[str, ...]
    Vector = dict[NGram, float]  # the weights of the n-grams of one order

ORDERS = (1, 2, 3, 4)
SIGMA = 6.0  # of the penalty for a difference in length
SCALE = 10.0


def cider_d(captions: Sequence[list[str]], references: Sequence[Sequence[list[str]]]) -> Float64[ndarray, " captions"]:
    """CIDEr-D of each caption, 0 .. 10; that of the corpus is the mean."""
    pictures_with = Counter(ngram for several in references for ngram in frozenset().union(*map(_all_ngrams, several)))
    pictures = len(references)

    def vectors(words: list[str]) -> list[Vector]:
        return [
            {ngram: count * math.log(pictures / max(pictures_with[ngram], 1)) for ngram, count in counts.items()}
            for counts in (Counter(_ngrams(words, order)) for order in ORDERS)
        ]

    scores = np.zeros(len(captions))
    for i, (words, several) in enumerate(zip(captions, references, strict=True)):
        caption = vectors(words)
        scores[i] = np.mean(
            [_length_penalty(words, reference) * _similarity(caption, vectors(reference)) for reference in several]
        )
    return SCALE * scores


def _all_ngrams(words: list[str]) -> set[NGram]:
    return {ngram for order in ORDERS for ngram in _ngrams(words, order)}


def _ngrams(words: list[str], order: int) -> Iterator[NGram]:
    return zip(*(words[i:] for i in range(order)), strict=False)


def _length_penalty(caption: list[str], reference: list[str]) -> float:
    """A Gaussian of the difference in length, counted in bigrams as the authors' code does."""
    difference = max(len(caption) - 1, 0) - max(len(reference) - 1, 0)
    return math.exp(-(difference**2) / (2 * SIGMA**2))


def _similarity(caption: list[Vector], reference: list[Vector]) -> float:
    """The mean over the orders of the cosine, the caption's weights clipped to the reference's."""
    return math.fsum(map(_clipped_cosine, caption, reference)) / len(ORDERS)


def _clipped_cosine(caption: Vector, reference: Vector) -> float:
    product = math.fsum(
        min(weight, reference[ngram]) * reference[ngram] for ngram, weight in caption.items() if ngram in reference
    )
    return product / (math.hypot(*caption.values()) * math.hypot(*reference.values())) if product else 0.0
