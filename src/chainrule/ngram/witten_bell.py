"""Counts to probabilities after Witten and Bell: the share of what has not been seen follows from how many kinds have.

P(w|h) = (c(hw) + T(h) P(w|h')) / (c(h) + T(h)), where T(h) is the number of kinds of words seen after h and h' is h
without its first word; the unigrams are interpolated with the uniform distribution. It needs no counts of counts, so it
suits small alphabets, where discounts cannot be estimated. Source: Witten and Bell (1991), method C, in the
interpolated form of Chen and Goodman (1998).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.ngram.smoothing import Estimates
from chainrule.ngram.table import ROOT
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from chainrule.ngram.counting import Counts


def witten_bell(counts: Counts) -> Estimates:
    """The estimates of all orders; <s> is never predicted."""
    inner = counts.begin.size - 1
    probs, unseen = np.empty(counts.words.size, np.float64), np.empty(inner, np.float64)
    probs[ROOT] = 1 / (counts.level_sizes[0] - 1)
    for order in range(1, counts.order + 1):
        contexts, level = counts.level(order - 1), counts.level(order)
        begin = counts.begin[contexts.start : contexts.stop + 1] - level.start
        sizes = np.diff(begin)  # of the contexts' groups, some of them empty
        seen = counts.counts[level].astype(np.float64)
        kinds = np.add.reduceat(np.append(seen > 0, False), begin[:-1], dtype=np.int64) * (sizes > 0)
        totals = np.add.reduceat(np.append(seen, 0.0), begin[:-1]) * (sizes > 0)
        with np.errstate(invalid="ignore"):
            unseen[contexts] = np.where(totals > 0, kinds / (totals + kinds), 1.0)  # what goes to the lower order
        norms, shares = np.repeat(totals + kinds, sizes), np.repeat(unseen[contexts], sizes)
        probs[level] = seen / norms + shares * probs[counts.suffixes[level]]
        if order == 1:
            probs[1 + BEGIN] = 0
    with np.errstate(divide="ignore"):
        log_probs, log_backoffs = np.log(probs).astype(np.float32), np.log(unseen).astype(np.float32)
    log_probs[ROOT] = log_backoffs[ROOT] = 0  # never asked for
    return Estimates(log_probs, log_backoffs, discounts=())
