"""Good-Turing discounts with Katz's back-off.

Sources: Good, The population frequencies of species (1953); Katz, Estimation of probabilities from sparse data for the
language model component of a speech recognizer (1987).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.estimation.discounts import count_of_counts
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.passes import backed_off_by_discounts, raw_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

RELIABLE = 5  # Katz's k: larger counts are believed as they are


def good_turing(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = d(c) c(hw) / c(h) if seen, else alpha(h) p(w|h'); d: `katz_discounts`.

    Where no count after h is small enough to be discounted, one is set aside for the unseen: c(h) + 1 in place of c(h).
    """

    def discounts_at(order: int, raw: Int[ndarray, " ngrams"]) -> Discounts:
        return katz_discounts(order, count_of_counts(raw, RELIABLE + 1))

    return backed_off_by_discounts(counts, config, partial(raw_counts, counts), discounts_at, progress)


def katz_discounts(order: int, n: Sequence[int]) -> Discounts:
    """What Katz takes from counts of 1 .. k, and 0 for larger ones.

    r - d(r) r, where d(r) = (r*/r - q) / (1 - q), r* = (r+1) n(r+1) / n(r) and q = (k+1) n(k+1) / n(1). k is 5, or the
    largest below for which all of this is defined and takes something but not all; if there is none, nothing is taken,
    with the reason. n: how many n-grams have a count of 1, 2, ..., k + 1.
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
    counted = ", ".join(f"{number:,}" for number in n)
    return Discounts(
        order,
        (0.0,),
        f"order {order}: {counted} {order}-grams have counts of 1 to {len(n)}, from which no discount can be estimated",
        "none at all",
    )
