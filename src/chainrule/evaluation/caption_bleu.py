"""BLEU-1 to BLEU-4 of captions with several references, as papers on captions report it.

Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation, 2002: of the corpus, without smoothing,
against the reference closest in length. Tokens are given, so figures equal those of pycocoevalcap on the same tokens,
except that an order without a match gives 0 where that package has a number near 0.0001. sacrebleu counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.evaluation.bleu import ORDER, check_bleu, sentence_statistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, Int64
    from numpy import ndarray


def caption_bleu_statistics(
    captions: Sequence[list[str]], references: Sequence[Sequence[list[str]]]
) -> Int64[ndarray, "captions 10"]:
    """Matching and all n-grams of orders 1 to 4, and the lengths of the caption and of its closest reference.

    Raises SettingError if sacrebleu is not installed.
    """
    check_bleu()
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(tokenize="none", effective_order=True)
    texts = [" ".join(words) for words in captions]
    return sentence_statistics(metric, texts, [[" ".join(words) for words in several] for several in references])


def caption_bleu(sums: Float64[ndarray, "*several 10"], order: int) -> Float64[ndarray, "*several"]:
    """BLEU of 0 .. 100 with n-grams of up to an order: brevity penalty times the geometric mean of precisions."""
    sums = np.asarray(sums, np.float64)
    matches, totals = sums[..., :order], sums[..., ORDER : ORDER + order]
    length, reference = sums[..., -2], sums[..., -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.log(matches / totals).mean(axis=-1)
        bleu = 100 * np.exp(np.minimum(0.0, 1 - reference / length) + mean)
    return np.where((matches > 0).all(axis=-1), bleu, 0.0)
