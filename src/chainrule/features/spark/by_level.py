"""Estimates one order of a part of the contexts by itself, from the probabilities of the order below.

Everything that an estimator does with a context stays within the n-grams after it; only the order below, and what
counts of counts say of the whole text, come from elsewhere. So contexts can be shared out to machines, order by order:
the arithmetic is that of the passes over a whole trie, and so are the results, to the bit. Contexts and n-grams are
numbered from 0 here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.threads import run
from chainrule.errors import SettingError
from chainrule.ngram.config import BACKING_OFF, DISCOUNTING
from chainrule.ngram.counting.counts import Counts
from chainrule.ngram.estimation.backoff_and_additive import score_unseen_words, witten_bell_weights
from chainrule.ngram.estimation.discounts import discounts_of
from chainrule.ngram.estimation.estimation_kernels import back_off, divide, interpolate, sum_children, weigh
from chainrule.ngram.estimation.passes import check_discounts, finish_unigrams, uniform_share
from chainrule.ngram.trie.table import narrowest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.estimation.estimates import Discounts

BY_LEVEL = (*DISCOUNTING, "witten-bell", "stupid-backoff")


class LevelCounts(NamedTuple):
    """The n-grams of an order after some contexts, those of a context side by side.

    adjusted: the counts that discounts are subtracted from; see `CONTINUATION`.
    """

    children: Int[ndarray, " contexts"]  # how many follow each context
    counts: Int[ndarray, " ngrams"]
    adjusted: Int[ndarray, " ngrams"]


class LevelEstimates(NamedTuple):
    """The estimates of the n-grams of a level.

    log_probs, log_backoffs: as in a table. probs: what the next order needs.
    """

    probs: Float[ndarray, " ngrams"]
    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " contexts"]


def check_by_level(config: NGramConfig) -> None:
    """Raise SettingError where contexts cannot be estimated apart from each other."""
    if config.smoothing not in BY_LEVEL:
        raise SettingError(f"{config.smoothing} cannot be estimated part by part; choose one of {', '.join(BY_LEVEL)}")
    if config.kenlm_compatible:
        raise SettingError("kenlm_compatible needs the counts of the whole text; leave it out to estimate part by part")


def uses_lower_order(config: NGramConfig) -> bool:
    """Return whether the probability of a seen n-gram depends on that of the order below."""
    return config.smoothing != "stupid-backoff"


def discounts_by_level(config: NGramConfig, order: int, n: Sequence[int]) -> Discounts | None:
    """Return the discounts of `discounts_of`; None for a smoothing without.

    Raises EstimationError under config.strict_discounts.
    """
    return check_discounts(discounts_of(config, order, n), config) if config.smoothing in DISCOUNTING else None


def estimate_level(
    config: NGramConfig,
    order: int,
    level: LevelCounts,
    lower: Float[ndarray, " ngrams"],
    discounts: Discounts | None,
) -> LevelEstimates:
    """Estimate the n-grams after some contexts. lower: the probability of each n-gram's suffix."""
    contexts, size = level.children.size, level.counts.size
    begin = np.zeros(contexts + 1, narrowest(2 * size))
    begin[1:] = np.cumsum(level.children)
    backs_off = config.smoothing in BACKING_OFF
    probs = np.empty(size, np.float64 if backs_off else np.float32)
    log_probs, log_backoffs = np.empty(size, np.float32), np.empty(contexts, np.float32)
    counts, min_count = level.counts, config.min_count(order)
    if backs_off:
        assert discounts is not None
        probs = np.concatenate([probs, lower])  # the kernel reads both from one array
        suffixes = np.arange(size, 2 * size, dtype=begin.dtype)
        by_count = np.array([0.0, *discounts.values])
        fixed = begin, suffixes, level.adjusted, 0, counts, min_count, by_count
        run(back_off, 0, contexts, *fixed, probs, log_probs, log_backoffs)
        return LevelEstimates(probs[:size], log_probs, log_backoffs)
    outputs = probs, log_probs, log_backoffs
    if discounts is not None:
        log_probs[:] = lower  # where the kernel expects it
        by_count = np.concatenate([[0.0], np.broadcast_to(discounts.values, 3)])
        run(interpolate, 0, contexts, begin, level.adjusted, 0, counts, min_count, by_count, *outputs)
        return LevelEstimates(*outputs)
    totals, types = np.empty(contexts, np.int64), np.empty(contexts, np.int64)
    run(sum_children, 0, contexts, begin, counts, 0, totals, types)
    if config.smoothing == "witten-bell":
        log_probs[:] = lower
        weights = np.ascontiguousarray(witten_bell_weights(totals, types), np.float64)
        run(weigh, 0, contexts, begin, counts, min_count, totals, weights, *outputs)
    else:
        run(divide, 0, contexts, begin, counts, totals, *outputs)
    return LevelEstimates(*outputs)


def estimate_unigrams(
    config: NGramConfig, counts: Int64[ndarray, " V"], adjusted: Int64[ndarray, " V"], discounts: Discounts | None
) -> LevelEstimates:
    """Estimate all unigrams, whose only context is the empty one."""
    size = counts.size
    words, suffixes = np.arange(-1, size, dtype=np.int32), np.zeros(1 + size, np.int32)
    whole = Counts((size,), words, np.array([1, 1 + size], np.int32), suffixes, np.concatenate([[0], counts]))
    precision = np.float64 if config.smoothing in BACKING_OFF else np.float32
    lower = np.full(size, uniform_share(whole, config) if config.interpolate_unigrams else 0, precision)
    level = LevelCounts(np.array([size]), counts, adjusted)
    estimates = estimate_level(config, 1, level, lower, discounts)
    finish_unigrams(whole, config, float(estimates.log_backoffs[0]), estimates.probs, estimates.log_probs)
    if config.smoothing == "stupid-backoff":
        score_unseen_words(whole, config, estimates.log_probs)
    return estimates
