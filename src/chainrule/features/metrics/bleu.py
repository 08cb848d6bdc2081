"""BLEU and chrF by sacreBLEU, BLEU-1 to BLEU-4 of captions, and GLEU, the measure of corrections.

    BLEU              Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation, 2002
    chrF              Popovic, chrF: character n-gram F-score for automatic MT evaluation, 2015
    BLEU of captions  of the corpus, without smoothing, against the reference closest in length
    GLEU              Napoles, Sakaguchi, Post and Tetreault, Ground Truth for Grammatical Error Correction Metrics,
                      2015, as revised in GLEU Without Tuning, 2016

The package sacrebleu is optional, and imported on first use: it tokenizes and counts, this module sums up. BLEU of
captions takes tokens, so figures equal those of pycocoevalcap on the same tokens, except that an order without a match
gives 0 where that package has a number near 0.0001. In GLEU, n-grams lose credit where the text to correct has them and
the reference does not; of several references one is drawn at random for each text, and the mean taken over many draws;
tokens are what white space separates.
"""

from __future__ import annotations

import random
from collections import Counter
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray

ORDER = 4


def has_bleu() -> bool:
    """Return whether sacrebleu is installed."""
    return find_spec("sacrebleu") is not None


def check_bleu() -> None:
    """Raise SettingError if sacrebleu is not installed."""
    if not has_bleu():
        raise SettingError("BLEU needs the package sacrebleu: pip install 'chainrule[bleu]'")


def sentence_statistics(
    metric: Any, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> Int64[ndarray, "texts 10"]:
    """Return matching n-grams of orders 1 to 4, all n-grams of orders 1 to 4, and the lengths of text and closest
    reference.

    metric: a BLEU of sacrebleu.
    """
    rows = np.zeros((len(texts), 2 * ORDER + 2), np.int64)
    for row, text, several in zip(rows, texts, references, strict=True):
        score = metric.sentence_score(text, several)
        row[:] = [*score.counts, *score.totals, score.sys_len, score.ref_len]
    return rows


class Bleu:
    """Corpus BLEU of 0 .. 100 with sacreBLEU's own settings: one reference, 13a tokens, exponential smoothing."""

    name = short = "BLEU"
    lower_is_better = False

    def __init__(self) -> None:
        """Raise SettingError if sacrebleu is not installed."""
        check_bleu()

    @cached_property
    def _metric(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(effective_order=True)  # does not change the counts; without it, sacrebleu warns about sentences

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature."""
        from sacrebleu.metrics.bleu import BLEU

        return _signature(BLEU())

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 10"]:
        """Return the `sentence_statistics` of each text and its reference."""
        return sentence_statistics(self._metric, texts, [[reference] for reference in references])

    def value(self, sums: Float64[ndarray, "*several 10"]) -> Float64[ndarray, "*several"]:
        """Return brevity penalty times the geometric mean of the precisions (Papineni et al. 2002, section 2.3).

        Orders without a match count 1/2, 1/4, ... matches (smoothing 3 of Chen and Cherry 2014). BLEU is 0 for a corpus
        without any match, or without n-grams of some order.
        """
        sums = np.asarray(sums, np.float64)
        matches, totals = sums[..., :ORDER], sums[..., ORDER : 2 * ORDER]
        length, reference = sums[..., -2], sums[..., -1]
        missing = np.cumsum(matches == 0, axis=-1)
        smoothed = np.where(matches == 0, 0.5**missing, matches)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.exp(np.log(smoothed / totals).mean(axis=-1))
            brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
            bleu = 100 * brevity * mean
        return np.where((matches[..., 0] > 0) & (totals > 0).all(axis=-1), bleu, 0.0)


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

        return _signature(CHRF())

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 18"]:
        """Return N-grams of the text, of the reference, and in both, for each order; none where one side has none."""
        rows = np.zeros((len(texts), CHARACTER_ORDER, 3), np.int64)
        for row, *sides in zip(rows, texts, references, strict=True):
            ours, theirs = ("".join(side.split()) for side in sides)
            for order in range(1, CHARACTER_ORDER + 1):
                counts, expected = _character_ngrams(ours, order), _character_ngrams(theirs, order)
                # sacreBLEU leaves the text's n-grams out where the reference is too short to have any
                row[order - 1] = counts.total() if expected else 0, expected.total(), (counts & expected).total()
        return rows.reshape(len(texts), -1)

    def value(self, sums: Float64[ndarray, "*several 18"]) -> Float64[ndarray, "*several"]:
        """Return F with beta 2 of the mean precision and the mean recall over the orders that both sides have."""
        sums = np.asarray(sums, np.float64)
        ours, theirs, both = np.moveaxis(sums.reshape(*sums.shape[:-1], CHARACTER_ORDER, 3), -1, 0)
        counted = (ours > 0) & (theirs > 0)
        orders = np.maximum(counted.sum(axis=-1), 1)
        precision = (counted * both / np.maximum(ours, 1)).sum(axis=-1) / orders
        recall = (counted * both / np.maximum(theirs, 1)).sum(axis=-1) / orders
        weighted = BETA**2 * precision + recall
        return 100 * (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)


def _signature(metric: Any) -> str:
    metric.corpus_score(["a"], [["a"]])  # so that it knows the number of references
    return str(metric.get_signature())


def _character_ngrams(text: str, order: int) -> Counter[str]:
    return Counter(text[i : i + order] for i in range(len(text) - order + 1))


def caption_bleu_statistics(
    captions: Sequence[list[str]], references: Sequence[Sequence[list[str]]]
) -> Int64[ndarray, "captions 10"]:
    """Return matching and all n-grams of orders 1 to 4, and the lengths of the caption and of its closest reference.

    Raises SettingError if sacrebleu is not installed.
    """
    check_bleu()
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", effective_order=True)
    texts = [" ".join(words) for words in captions]
    return sentence_statistics(metric, texts, [[" ".join(words) for words in several] for several in references])


def caption_bleu(sums: Float64[ndarray, "*several 10"], order: int) -> Float64[ndarray, "*several"]:
    """Return BLEU of 0 .. 100 with n-grams of up to an order: brevity penalty times the geometric mean of
    precisions.
    """
    sums = np.asarray(sums, np.float64)
    matches, totals = sums[..., :order], sums[..., ORDER : ORDER + order]
    length, reference = sums[..., -2], sums[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(matches / totals).mean(axis=-1)
        bleu = 100 * np.exp(np.minimum(0.0, 1 - reference / length) + mean)
    return np.where((matches > 0).all(axis=-1), bleu, 0.0)


DRAWS = 500  # of references; the seed of draw j is SEED_STEP j, as in the authors' script
SEED_STEP = 101
_ORDER = 4


def gleu_statistics(
    texts: Sequence[str], corrected: Sequence[str], references: Sequence[str]
) -> Int64[ndarray, "texts 10"]:
    """Return lengths of the corrected text and the reference, then, for orders 1 to 4, credited and all n-grams."""
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
    """Return GLEU of 0 .. 100 from sums of statistics; 0 where an order has no credit."""
    sums = np.asarray(sums, np.float64)
    length, reference = sums[..., 0], sums[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(sums[..., 2::2] / sums[..., 3::2]).mean(axis=-1)
        score = 100 * np.exp(np.minimum(0.0, 1 - reference / length) + mean)
    return np.where((sums > 0).all(axis=-1), score, 0.0)


def drawn_statistics(
    statistics: Float64[ndarray, "references texts 10"], draws: int = DRAWS
) -> list[Float64[ndarray, "texts 10"]]:
    """Return statistics of the texts with the references of each draw."""
    references, texts, _ = statistics.shape
    if references == 1:
        return [statistics[0]]
    rows = np.arange(texts)
    return [statistics[_drawn(references, texts, draw), rows] for draw in range(draws)]


def expected_gleu(statistics: Float64[ndarray, "references texts 10"], draws: int = DRAWS) -> float:
    """Return the mean of the GLEU of the corpus over random draws of references."""
    sums = np.array([rows.sum(axis=0) for rows in drawn_statistics(statistics, draws)])
    return float(gleu_of_sums(sums).mean())


def _drawn(references: int, texts: int, draw: int) -> Int64[ndarray, " texts"]:
    rng = random.Random(draw * SEED_STEP)
    return np.array([rng.randint(0, references - 1) for _ in range(texts)], np.int64)


def _word_ngrams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[i:] for i in range(order)), strict=False))
