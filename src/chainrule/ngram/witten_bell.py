"""Counts to probabilities after Witten and Bell: the share of what has not been seen follows from how many kinds have.

P(w|h) = (c(hw) + T(h) P(w|h')) / (c(h) + T(h)), where T(h) is the number of kinds of words seen after h and h' is h
without its first word; the unigrams are interpolated with the uniform distribution. It needs no counts of counts, so it
suits small alphabets, where discounts cannot be estimated. Source: Witten and Bell (1991), method C, in the
interpolated form of Chen and Goodman (1998).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.smoothing import Discounts, Estimates
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.ngram.counting import Level


def witten_bell(levels: Sequence[Level]) -> list[Estimates]:
    """The estimates of orders 1 .. len(levels); <s> is never predicted."""
    lower: Float64[ndarray, " ngrams"] = np.array([1 / (len(levels[0]) - 1)])
    estimates = []
    for order, level in enumerate(levels, start=1):
        counts = level.counts.astype(np.float64)
        sizes = np.diff(level.begin)  # of the contexts' groups, some of them empty
        kinds = np.add.reduceat(np.append(counts > 0, False), level.begin[:-1], dtype=np.int64) * (sizes > 0)
        totals = np.add.reduceat(np.append(counts, 0.0), level.begin[:-1]) * (sizes > 0)
        with np.errstate(invalid="ignore"):
            unseen = np.where(totals > 0, kinds / (totals + kinds), 1.0)  # what goes to the lower order
            norms = np.repeat(totals + kinds, sizes)
        probs = counts / norms + np.repeat(unseen, sizes) * lower[level.suffixes]
        if order == 1:
            probs[BEGIN] = 0
        with np.errstate(divide="ignore"):
            log_probs = np.log(probs).astype(np.float32)
        log_backoffs = np.log(unseen).astype(np.float32)
        kept = np.ones(len(level), np.bool_)
        estimates.append(Estimates(log_probs, log_backoffs, kept, Discounts(order, (0.0, 0.0, 0.0))))
        lower = probs
    return estimates
