"""Witten-Bell smoothing: the mass of unseen words grows with the number of types seen after a context.

It needs no counts of counts, so it suits small alphabets, for which discounts cannot be estimated.

Sources: Witten and Bell, The zero-frequency problem (1991), method C; Chen and Goodman (1998), interpolated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.estimation.passes import interpolate_by_weights

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates

_DEFAULT = NGramConfig(smoothing="witten-bell")


def witten_bell(counts: Counts, config: NGramConfig = _DEFAULT, progress: Progress = silent) -> Estimates:
    """p(w|h) = (c(hw) + T(h) p(w|h')) / (c(h) + T(h)), where T(h) is the number of types seen after h."""
    return interpolate_by_weights(
        counts, config, lambda contexts: witten_bell_weights(contexts.totals, contexts.types), progress
    )


def witten_bell_weights(
    totals: Int64[ndarray, " contexts"], types: Int64[ndarray, " contexts"]
) -> Float64[ndarray, " contexts"]:
    """c(h) / (c(h) + T(h)) of contexts that so many tokens and types follow."""
    return totals / np.maximum(totals + types, 1)
