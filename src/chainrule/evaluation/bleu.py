"""BLEU (Papineni et al. 2002) as sacreBLEU computes it: the library tokenizes and counts, this module sums up.

The package sacrebleu is optional, and imported on first use.
"""

from __future__ import annotations

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
    """Whether sacrebleu is installed."""
    return find_spec("sacrebleu") is not None


def check_bleu() -> None:
    """Raises SettingError if sacrebleu is not installed."""
    if not has_bleu():
        raise SettingError("BLEU needs the package sacrebleu: pip install 'chainrule[bleu]'")


def sentence_statistics(
    metric: Any, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> Int64[ndarray, "texts 10"]:
    """Matching n-grams of orders 1 to 4, all n-grams of orders 1 to 4, and the lengths of text and closest reference.

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
        """Raises SettingError if sacrebleu is not installed."""
        check_bleu()

    @cached_property
    def _metric(self) -> Any:
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(effective_order=True)  # does not change the counts; without it, sacrebleu warns about sentences

    @property
    def signature(self) -> str:
        """sacreBLEU's own signature."""
        from sacrebleu.metrics.bleu import BLEU

        metric = BLEU()
        metric.corpus_score(["a"], [["a"]])  # so that it knows the number of references
        return str(metric.get_signature())

    def statistics(self, texts: Sequence[str], references: Sequence[str]) -> Int64[ndarray, "texts 10"]:
        """Those of `sentence_statistics`, of each text and its reference."""
        return sentence_statistics(self._metric, texts, [[reference] for reference in references])

    def value(self, sums: Float64[ndarray, "*several 10"]) -> Float64[ndarray, "*several"]:
        """Brevity penalty times the geometric mean of the precisions (Papineni et al. 2002, section 2.3).

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
