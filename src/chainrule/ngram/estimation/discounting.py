"""Smoothings that subtract discounts from counts, and give this mass to the lower order.

    absolute                      raw counts, one discount for each order; interpolated
    good-turing                   raw counts, Katz's discounts of counts 1 to 5; backing off
    kneser-ney                    adjusted counts, one discount for each order; interpolated
    kneser-ney-backoff            the same, backing off, as published
    modified-kneser-ney           adjusted counts, D1, D2 and D3+ for each order; interpolated
    modified-kneser-ney-backoff   the same, backing off

In Kneser-Ney smoothing, lower orders count the distinct words that precede an n-gram, not its occurrences.

Sources: Kneser and Ney, Improved backing-off for m-gram language modeling (ICASSP 1995); Ney, Essen and Kneser, On
structuring probabilistic dependences in stochastic language modelling (1994), for absolute discounting and the single
discount; Katz (1987), for Good-Turing's discounts; Chen and Goodman (1998), section 3, for three discounts and for
interpolation; Heafield et al. (ACL 2013), section 3, for the boundaries of sentences.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import parts_released
from chainrule.base.threads import run
from chainrule.ngram.config import BACKING_OFF
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.estimation.discounts import FALLBACK, counts_of_counts, discounts_of
from chainrule.ngram.estimation.estimation_kernels import count_suffixes
from chainrule.ngram.estimation.passes import PRUNED, back_off_by_discounts, interpolate_by_discounts, raw_counts

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Discounts, Estimates
    from chainrule.ngram.estimation.passes import AdjustedCounts

CONTINUATION = ("kneser-ney", "kneser-ney-backoff", "modified-kneser-ney", "modified-kneser-ney-backoff")


def discounting(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    fallback: tuple[float, float, float] = FALLBACK,
    dropped: Bool[ndarray, " nodes"] | None = None,
    words: int | None = None,
) -> Estimates:
    """Return p(w|h) = max(a(hw) - D(a(hw)), 0) / sum_v a(hv) + gamma(h) p(w|h'), where gamma(h) is the mass that is
    taken.

    Backing off: the first part alone where hw was seen, gamma(h) p(w|h') where it was not; where no count after h is
    discounted, the sum is one more: one count for the unseen. a: `counts_to_discount`. D: `discounts_of`. fallback: D1,
    D2, D3+ of an order for which none can be estimated. For interpolation, dropped: n-grams that are pruned whatever
    their counts; words: see `interpolate_by_discounts`. Raises EstimationError under config.strict_discounts.
    """
    last_counts = _raw_counts_of_last_suffixes(counts) if config.kenlm_compatible else {}

    def discounts_at(order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
        last = last_counts.get(order) if order < counts.order else None
        n = counts_of_counts(adjusted, first=counts.level(order).start, replacement=last)
        return discounts_of(config, order, n, fallback)

    adjusted_at = counts_to_discount(counts, config)
    if config.smoothing in BACKING_OFF:
        return back_off_by_discounts(counts, config, adjusted_at, discounts_at, progress)
    below_any_threshold = counts.counts.dtype.type(PRUNED)
    kept = counts if dropped is None else replace(counts, counts=np.where(dropped, below_any_threshold, counts.counts))
    return interpolate_by_discounts(kept, config, adjusted_at, discounts_at, progress, words=words)


def counts_to_discount(counts: Counts, config: NGramConfig) -> AdjustedCounts:
    """Return the counts of each order that discounts are subtracted from: adjusted ones for Kneser-Ney, or raw ones."""
    return partial(adjusted_counts if config.smoothing in CONTINUATION else raw_counts, counts)


def adjusted_counts(
    counts: Counts, order: int, buffer: Int[ndarray, " ngrams"] | None = None
) -> Int[ndarray, " ngrams"]:
    """Return raw counts at the highest order and after <s>; for other n-grams, the number of distinct words before
    them.

    buffer: memory for the latter.
    """
    level = counts.level(order)
    if order == counts.order:
        return counts.counts[level]
    adjusted = counts.new_array(level.stop - level.start, counts.counts.dtype) if buffer is None else buffer
    longer = counts.suffixes[counts.level(order + 1)]
    for span in counts.resident_parts(level, adjusted.itemsize):
        part = adjusted[span.start - level.start : span.stop - level.start]
        resident = part if counts.memory is None else np.empty(part.size, part.dtype)
        resident[:] = 0
        for suffixes in parts_released(longer):
            run(count_suffixes, suffixes, span.start, resident)
        if resident is not part:
            part[:] = resident
    after_begin = nodes_after_begin(counts, order)
    adjusted[after_begin.start - level.start : after_begin.stop - level.start] = counts.counts[after_begin]
    return adjusted


def _raw_counts_of_last_suffixes(counts: Counts) -> dict[int, tuple[int, int]]:
    """Return, by order, the node and raw count of the suffix of the n-gram that is last in suffix order.

    Suffix order compares the last words first. lmplz pads n-grams at the beginning of a document with <s> to the
    highest order; here these are shorter ones that begin with <s>, so there may be no suffix of the longer orders.
    """
    unigrams = counts.level(1)
    node = unigrams.start + int(np.flatnonzero(counts.counts[unigrams])[-1])
    last = {1: (node, int(counts.counts[node]))}
    for order in range(2, counts.order + 1):
        level = counts.level(order)
        longer = level.start + np.flatnonzero(counts.suffixes[level] == node)
        if not longer.size:  # it begins with <s>
            break
        node = int(longer[np.argmax([_first_word(counts, order, candidate) for candidate in longer.tolist()])])
        last[order] = (node, int(counts.counts[node]))
    return last


def _first_word(counts: Counts, order: int, node: int) -> int:
    """Return the first word of the n-gram of a node."""
    for _ in range(order - 1):
        node = int(np.searchsorted(counts.begin, node, side="right")) - 1
    return int(counts.words[node])
