"""Scores of generated texts against references, with confidence intervals: captions, summaries, translations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.tables import text_table
from chainrule.errors import TextError
from chainrule.evaluation.resampling import interval_of_sums
from chainrule.features.metrics.bleu import ORDER, Bleu, Chrf, caption_bleu, caption_bleu_statistics
from chainrule.features.metrics.rouge import (
    caption_rouge_l,
    caption_words,
    check_stemmer,
    cider_d,
    meteor,
    rouge_words,
    summary_rouge,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float64
    from numpy import ndarray


@dataclass(frozen=True)
class TextScore:
    """A score of a corpus and its 95 % bootstrap interval over texts, NaN for a single text."""

    name: str
    value: float
    interval: tuple[float, float]
    variant: str  # what else one has to know to compare it

    def row(self) -> list[str]:
        """Return a row of a table: name and variant, value, interval."""
        low, high = self.interval
        return [
            f"{self.name} ({self.variant})",
            f"{self.value:.2f}",
            "" if math.isnan(low) else f"{low:.2f}-{high:.2f}",
        ]


@dataclass(frozen=True)
class TextScores:
    """Scores of one corpus."""

    texts: int
    scores: tuple[TextScore, ...]

    def __str__(self) -> str:
        return text_table(["", "score", "95 %"], [score.row() for score in self.scores])

    def to_dict(self) -> dict[str, Any]:
        """Return the scores by name, their intervals as NAME_low and NAME_high: a row for pandas."""
        row: dict[str, Any] = {"texts": self.texts}
        for score in self.scores:
            low, high = score.interval
            row |= {score.name: score.value, f"{score.name}_low": low, f"{score.name}_high": high}
        return row


def measure_captions(captions: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Return BLEU-1 to BLEU-4, METEOR, ROUGE-L (all 0 .. 100) and CIDEr-D (0 .. 10) of captions.

    references: a list for each picture, of one or more. Both sides are tokenized alike (`caption_words`). An interval
    of CIDEr-D keeps the weights of n-grams, which depend on all pictures. Raises TextError if a caption has no
    reference; SettingError if a package is missing.

    good:  measure_captions(["a dog runs", "a cat"], [["a dog is running", "the dog runs"], ["a small cat"]])
    bad:   measure_captions(["a dog runs"], ["a dog is running"])  # the references of each picture are a list
    """
    _check(captions, references)
    check_stemmer()
    words = [caption_words(text) for text in captions]
    theirs = [[caption_words(text) for text in several] for several in references]
    statistics = caption_bleu_statistics(words, theirs)
    bleu = [
        _score(f"BLEU-{n}", statistics, partial(caption_bleu, order=n), "closest reference, no smoothing")
        for n in range(1, ORDER + 1)
    ]
    pairs = list(zip(words, theirs, strict=True))
    return TextScores(
        len(captions),
        (
            *bleu,
            _mean("METEOR", [100 * meteor(*pair) for pair in pairs], "exact and stem matches (Snowball), no synonyms"),
            _mean("ROUGE-L", [100 * caption_rouge_l(*pair) for pair in pairs], "F with beta 1.2"),
            _mean("CIDEr-D", cider_d(words, theirs).tolist(), "of 10"),
        ),
    )


def measure_summaries(summaries: Sequence[str], references: Sequence[Sequence[str]]) -> TextScores:
    """Return ROUGE-1, ROUGE-2 and ROUGE-L of summaries, F1 of 0 .. 100; references and errors as in
    `measure_captions`.
    """
    _check(summaries, references)
    rows = [
        summary_rouge(rouge_words(text), [rouge_words(reference) for reference in several])
        for text, several in zip(summaries, references, strict=True)
    ]
    names = ("ROUGE-1", "ROUGE-2", "ROUGE-L")
    return TextScores(
        len(summaries),
        tuple(
            _mean(name, [100 * score for score in scores], "F1, no stemming")
            for name, scores in zip(names, zip(*rows, strict=True), strict=True)
        ),
    )


def measure_translations(translations: Sequence[str], references: Sequence[str]) -> TextScores:
    """Return BLEU and chrF (0 .. 100) as sacreBLEU computes them, and words of the translations per word of the
    references.

    Raises TextError; SettingError if sacrebleu is not installed.
    """
    _check(translations, [[reference] for reference in references])
    measures = (Bleu(), Chrf())
    lengths = np.array([[len(side.split()) for side in pair] for pair in zip(translations, references, strict=True)])
    return TextScores(
        len(translations),
        (
            *(_score(one.name, one.statistics(translations, references), one.value, one.signature) for one in measures),
            _score("length ratio", lengths, lambda sums: sums[..., 0] / sums[..., 1], "words"),
        ),
    )


def _check(texts: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raise TypeError or TextError unless there are texts, each with a list of references."""
    if isinstance(texts, str) or any(isinstance(several, str) for several in references):
        raise TypeError("expected a list of texts, and for each a list of references; put a single one in a list")
    if not texts:
        raise TextError("there are no texts to measure")
    if len(texts) != len(references):
        raise TextError(f"{len(texts):,} texts have {len(references):,} lists of references; expected one for each")
    for number, several in enumerate(references, 1):
        if not any(reference.strip() for reference in several):
            raise TextError(f"text {number:,} has no reference; leave it out or add one")


def _score(
    name: str, statistics: ndarray, value: Callable[..., Float64[ndarray, "*several"]], variant: str
) -> TextScore:
    return TextScore(name, float(value(statistics.sum(axis=0))), interval_of_sums([statistics], value), variant)


def _mean(name: str, scores: Sequence[float], variant: str) -> TextScore:
    statistics = np.column_stack([scores, np.ones(len(scores))])
    return _score(name, statistics, lambda sums: sums[..., 0] / sums[..., 1], variant)
