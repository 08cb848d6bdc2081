"""Katz backoff with Good-Turing discounts.

Sources: Good, The population frequencies of species (1953); Katz, Estimation of probabilities from sparse data for the
language model component of a speech recognizer (1987).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.estimation.discounts import counts_of_counts
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.passes import back_off_by_discounts, raw_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

RELIABLE = 5  # Katz's k: larger counts are not discounted


def good_turing(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = d(c) c(hw) / c(h) if hw was seen, else alpha(h) p(w|h'); d: see `katz_discounts`.

    Where no count after h is small enough to be discounted, c(h) + 1 replaces c(h): one count for the unseen.
    """

    def discounts_at(order: int, raw: Int[ndarray, " ngrams"]) -> Discounts:
        return katz_discounts(order, counts_of_counts(raw, RELIABLE + 1))

    return back_off_by_discounts(counts, config, partial(raw_counts, counts), discounts_at, progress)


def katz_discounts(order: int, n: Sequence[int]) -> Discounts:
    """Katz's discounts of counts 1 .. k: r - d(r) r; larger counts have a discount of 0.

    d(r) = (r*/r - q) / (1 - q), where r* = (r+1) n(r+1) / n(r) and q = (k+1) n(k+1) / n(1). k is 5, or the largest
    smaller value with 0 < d(r) < 1 for all r; if there is none, nothing is discounted, with the reason. n: the numbers
    of n-grams with a count of 1, 2, ..., 6.
    """
    for k in range(len(n) - 1, 0, -1):
        if 0 in n[: k + 1]:
            continue
        q = (k + 1) * n[k] / n[0]
        if q >= 1:
            continue
        ratios = [((r + 1) * n[r] / n[r - 1] / r - q) / (1 - q) for r in range(1, k + 1)]
        if all(0 < ratio < 1 for ratio in ratios):
            return Discounts(order, (*(r - ratio * r for r, ratio in enumerate(ratios, start=1)), 0.0))
    counted = ", ".join(f"{ngrams:,}" for ngrams in n)
    return Discounts(
        order,
        (0.0,),
        f"order {order}: {counted} {order}-grams have counts of 1 to {len(n)}, from which no discount can be estimated",
        "none at all",
    )
