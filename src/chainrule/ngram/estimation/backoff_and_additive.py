"""Estimators without discounts: maximum likelihood, additive (Lidstone, Laplace), Witten-Bell, stupid backoff.

Maximum likelihood and additive smoothing do not mix orders: the full context alone decides. In the trie, lower orders
are uniform; only full contexts, of order - 1 words or beginning with <s>, have distributions of their own.

In Witten-Bell smoothing, the mass of unseen words grows with the number of types seen after a context. It needs no
counts of counts, so it suits small alphabets, for which discounts cannot be estimated. Sources: Witten and Bell, The
zero-frequency problem (1991), method C; Chen and Goodman (1998), interpolated.

Stupid backoff has relative frequencies (Brants et al. 2007).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.estimation.passes import Contexts, interpolate_by_weights, relative_frequencies, uniform_share
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Float32, Float64, Int64
    from numpy import ndarray

    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates


def maximum_likelihood(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """Return p(w|h) = c(hw) / c(h), zero for unseen n-grams; Jurafsky and Martin, Speech and language processing.

    After an unseen context, where this is 0 / 0, its longest seen suffix decides.
    """
    return interpolate_by_weights(counts, config, lambda contexts: np.ones(contexts.totals.size), progress)


def lidstone(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """Return p(w|h) = (c(hw) + k) / (c(h) + k V), where V words can be predicted; 1 / V after an unseen h.

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
    """Return p(w|h) = (c(hw) + 1) / (c(h) + V): Lidstone's with k = 1. Laplace (1774)."""
    return lidstone(counts, replace(config, smoothing="lidstone", pseudocount=1.0), progress)


_DEFAULT = NGramConfig(smoothing="witten-bell")


def witten_bell(counts: Counts, config: NGramConfig = _DEFAULT, progress: Progress = silent) -> Estimates:
    """Return p(w|h) = (c(hw) + T(h) p(w|h')) / (c(h) + T(h)), where T(h) is the number of types seen after h."""
    return interpolate_by_weights(
        counts, config, lambda contexts: witten_bell_weights(contexts.totals, contexts.types), progress
    )


def witten_bell_weights(
    totals: Int64[ndarray, " contexts"], types: Int64[ndarray, " contexts"]
) -> Float64[ndarray, " contexts"]:
    """Return c(h) / (c(h) + T(h)) of contexts that so many tokens and types follow."""
    return totals / np.maximum(totals + types, 1)


def stupid_backoff(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """Return S(w|h) = c(hw) / c(h) if hw was seen, else 0.4 S(w|h'); c(w) / N without a context.

    Brants et al. (2007), equation 5. `StupidBackoff` applies the factors, since they are due after unseen contexts,
    too. The paper has no rule for unseen words: here they get one more factor and the uniform distribution; in a closed
    vocabulary, <unk> gets nothing.
    """
    estimates = relative_frequencies(counts, config, progress)
    score_unseen_words(counts, config, estimates.log_probs[counts.level(1)])
    return estimates


def score_unseen_words(counts: Counts, config: NGramConfig, log_probs: Float32[ndarray, " V"]) -> None:
    """Write the scores of words that the text lacks among those of all unigrams."""
    unseen = counts.counts[counts.level(1)] == 0
    unseen[BEGIN] = False
    if not config.open_vocabulary:
        unseen[UNKNOWN] = False
    log_probs[unseen] = math.log(config.backoff_weight / (counts.level_sizes[0] - 1))
