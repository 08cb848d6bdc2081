"""Counts to probabilities after Witten and Bell: the share of what has not been seen follows from how many kinds have.

It needs no counts of counts, so it suits small alphabets, where discounts cannot be estimated.

Sources: Witten and Bell, The zero-frequency problem (1991), method C; Chen and Goodman (1998), interpolated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.estimation.passes import interpolated_by_weights

if TYPE_CHECKING:
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates

_AS_USUAL = NGramConfig(smoothing="witten-bell")


def witten_bell(counts: Counts, config: NGramConfig = _AS_USUAL, progress: Progress = silent) -> Estimates:
    """p(w|h) = (c(hw) + T(h) p(w|h')) / (c(h) + T(h)), where T(h) is the number of kinds of words seen after h."""
    return interpolated_by_weights(
        counts,
        config,
        lambda contexts: contexts.totals / np.maximum(contexts.totals + contexts.kinds, 1),
        progress,
    )
