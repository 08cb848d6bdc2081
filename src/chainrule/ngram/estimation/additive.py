"""Maximum likelihood and additive smoothing (Lidstone, Laplace).

These do not mix orders: the full context alone decides. In the trie, lower orders are uniform; only full contexts, of
order - 1 words or beginning with <s>, have distributions of their own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.estimation.passes import Contexts, interpolate_by_weights, uniform_share

if TYPE_CHECKING:
    from jaxtyping import Float64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates


def maximum_likelihood(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = c(hw) / c(h), zero for unseen n-grams; Jurafsky and Martin, Speech and language processing.

    After an unseen context, where this is 0 / 0, its longest seen suffix decides.
    """
    return interpolate_by_weights(counts, config, lambda contexts: np.ones(contexts.totals.size), progress)


def lidstone(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = (c(hw) + k) / (c(h) + k V), where V words can be predicted; 1 / V after an unseen h.

    k: config.pseudocount. Lidstone (1920); Jeffreys, Theory of probability (1939), for k = 1/2.
    """
    added = config.pseudocount / uniform_share(counts, config)

    def weights_of(contexts: Contexts) -> Float64[ndarray, " contexts"]:
        weights = contexts.totals / (contexts.totals + added)  # so that p = weight c(hw) / c(h) + (1 - weight) / V
        if contexts.order == counts.order:
            return weights
        full = nodes_after_begin(counts, contexts.order - 1) if contexts.order > 1 and config.begins == "one" else None
        nodes = np.arange(contexts.start, contexts.start + weights.size)
        return np.where((nodes >= full.start) & (nodes < full.stop), weights, 0.0) if full else np.zeros(weights.size)

    return interpolate_by_weights(counts, config, weights_of, progress)


def laplace(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = (c(hw) + 1) / (c(h) + V): Lidstone's with k = 1. Laplace (1774)."""
    return lidstone(counts, replace(config, smoothing="lidstone", pseudocount=1.0), progress)
