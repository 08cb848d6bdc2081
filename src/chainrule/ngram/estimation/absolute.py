"""Absolute discounting: subtracts a constant from every count and gives this mass to the lower order.

Source: Ney, Essen and Kneser, On structuring probabilistic dependences in stochastic language modelling (1994).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chainrule.base.progress import Progress, silent
from chainrule.ngram.estimation.discounts import single_discount
from chainrule.ngram.estimation.passes import interpolate_by_discounts, raw_counts

if TYPE_CHECKING:
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates


def absolute_discounting(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = max(c(hw) - D, 0) / c(h) + D N1+(h.) / c(h) p(w|h'), recursively.

    N1+(h.): the number of types seen after h. D: config.discount, or the leave-one-out estimate n1 / (n1 + 2 n2) of
    each order.
    """
    adjusted_at = partial(raw_counts, counts)
    return interpolate_by_discounts(counts, config, adjusted_at, partial(single_discount, config), progress)
