"""Kneser-Ney smoothing: lower orders are made of the number of words that an n-gram follows, and not of how often.

Sources: Kneser and Ney, Improved backing-off for m-gram language modeling (ICASSP 1995); Ney, Essen and Kneser, On
structuring probabilistic dependences in stochastic language modelling (1994), for the one discount; Chen and Goodman
(1998), section 3, for three of them and for interpolation; Heafield et al. (ACL 2013), section 3, for sentence borders.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run
from chainrule.base.progress import Progress, silent
from chainrule.ngram.counting.counts import nodes_after_begin
from chainrule.ngram.estimation.discounts import (
    FALLBACK,
    _counts_of_counts,
    count_of_counts,
    estimated_discounts,
    one_discount,
)
from chainrule.ngram.estimation.interpolation_kernels import count_suffixes
from chainrule.ngram.estimation.passes import backed_off_by_discounts, interpolated_by_discounts

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Discounts, Estimates


def modified_kneser_ney(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    fallback: tuple[float, float, float] = FALLBACK,
    dropped: Bool[ndarray, " nodes"] | None = None,
    words: int | None = None,
) -> Estimates:
    """p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) p(w|h'), with D1, D2, D3+ for each order.

    a: `adjusted_counts`. Chen and Goodman (1998), modified Kneser-Ney. fallback: D1, D2, D3+ of an order whose own
    cannot be estimated. dropped: n-grams that are pruned whatever their counts. words: as `interpolated_by_discounts`
    has it. Raises EstimationError under config.strict_discounts.
    """
    last_counts = _raw_counts_of_last_suffixes(counts) if config.kenlm_compatible else {}

    def discounts_at(order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
        last = last_counts.get(order) if order < counts.order else None
        return estimated_discounts(order, _counts_of_counts(adjusted, counts.level(order).start, last), fallback)

    never = counts.counts.dtype.type(-1)
    pruned = counts if dropped is None else replace(counts, counts=np.where(dropped, never, counts.counts))
    adjusted_at = partial(adjusted_counts, counts)
    return interpolated_by_discounts(pruned, config, adjusted_at, discounts_at, progress, words=words)


def modified_kneser_ney_backoff(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """As `modified_kneser_ney`, but the lower order is asked only for words not seen after h: KN-MOD without -INTERP.

    p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) if seen, else gamma(h) p(w|h').
    """

    def discounts_at(order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
        return estimated_discounts(order, count_of_counts(adjusted, 4))

    return backed_off_by_discounts(counts, config, partial(adjusted_counts, counts), discounts_at, progress)


def kneser_ney(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = max(a(hw) - D, 0) / sum_v a(hv) + gamma(h) p(w|h'), with one D for each order.

    a: `adjusted_counts`. D: as given, or n1 / (n1 + 2 n2). Kneser and Ney (1995), interpolated as by Chen and Goodman.
    """
    return interpolated_by_discounts(
        counts, config, partial(adjusted_counts, counts), partial(one_discount, config), progress
    )


def kneser_ney_backoff(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = (a(hw) - D) / sum_v a(hv) if seen, else gamma(h) p(w|h'): Kneser and Ney (1995), as published."""
    return backed_off_by_discounts(
        counts, config, partial(adjusted_counts, counts), partial(one_discount, config), progress
    )


def adjusted_counts(counts: Counts, order: int, room: Int[ndarray, " ngrams"] | None = None) -> Int[ndarray, " ngrams"]:
    """Raw counts at the highest order and after <s>; the number of distinct left neighbours for all others.

    room: where the latter are written.
    """
    level = counts.level(order)
    if order == counts.order:
        return counts.counts[level]
    adjusted = np.empty(level.stop - level.start, counts.counts.dtype) if room is None else room
    adjusted[:] = 0
    run(count_suffixes, counts.suffixes[counts.level(order + 1)], level.start, adjusted)
    after_begin = nodes_after_begin(counts, order)
    adjusted[after_begin.start - level.start : after_begin.stop - level.start] = counts.counts[after_begin]
    return adjusted


def _raw_counts_of_last_suffixes(counts: Counts) -> dict[int, tuple[int, int]]:
    """By order, the node and raw count of the suffixes of that n-gram which comes last by suffix.

    The last word is compared first. lmplz fills n-grams at the beginning of a document with <s> up to the highest
    order, so that the last one may be here as a shorter one that begins with <s>: it has no longer suffixes.
    """
    unigrams = counts.level(1)
    node = unigrams.start + int(np.flatnonzero(counts.counts[unigrams])[-1])
    last = {1: (node, int(counts.counts[node]))}
    for order in range(2, counts.order + 1):
        level = counts.level(order)
        longer = level.start + np.flatnonzero(counts.suffixes[level] == node)
        if not longer.size:  # it begins with <s>
            break
        node = int(longer[np.argmax([_first_word(counts, order, each) for each in longer.tolist()])])
        last[order] = (node, int(counts.counts[node]))
    return last


def _first_word(counts: Counts, order: int, node: int) -> int:
    """Of an n-gram."""
    for _ in range(order - 1):
        node = int(np.searchsorted(counts.begin, node, side="right")) - 1
    return int(counts.words[node])
