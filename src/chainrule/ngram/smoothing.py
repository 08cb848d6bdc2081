"""Counts to probabilities: interpolated modified Kneser-Ney, of which every step is a pass over a level.

Sources: Chen and Goodman, An empirical study of smoothing techniques for language modeling (1998), section 3; Heafield
et al., Scalable modified Kneser-Ney language model estimation (ACL 2013), section 3, for the conventions at sentence
borders and of pruning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import EstimationError
from chainrule.jit import run, run_all
from chainrule.ngram.smoothing_kernels import count_suffixes, counts_of_counts, interpolate
from chainrule.ngram.table import ROOT
from chainrule.progress import Progress, silent
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting import Counts

CHUNKS = 64
FALLBACK = (0.5, 1.0, 1.5)
TASK = "smoothing"


@dataclass(frozen=True)
class Discounts:
    """What is taken from counts of 1, 2, and 3 or more, at one order."""

    order: int
    values: tuple[float, float, float]
    problem: str | None = None  # why they could not be estimated, where the fallback stands in

    @property
    def estimated(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class Estimates:
    """The numbers of every n-gram that was counted, by node."""

    log_probs: Float32[ndarray, " nodes"]
    log_backoffs: Float32[ndarray, " inner"]  # log gamma; 0 where nothing follows
    discounts: tuple[Discounts, ...]  # by order
    kept: Bool[ndarray, " nodes"] | None = None  # without it, all are


def modified_kneser_ney(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) p(w|h'), for all orders.

    gamma(h) holds all that was discounted and pruned after h. Raises EstimationError under config.strict_discounts.
    """
    inner, unigrams = counts.begin.size - 1, counts.level(1)
    log_probs, log_backoffs = np.empty(counts.words.size, np.float32), np.empty(inner, np.float32)
    probs = np.empty(max(inner, unigrams.stop), np.float32)  # those that a higher order, or the unigrams, are made of
    # The bottom is uniform over all words but <s>, which is never predicted; or <unk> and the unseen, added below.
    probs[ROOT] = 1 / (counts.level_sizes[0] - 1) if config.interpolate_unigrams else 0
    last_counts = _raw_counts_of_last_suffixes(counts) if config.kenlm_compatible else {}
    all_discounts = []
    for order in range(1, counts.order + 1):
        progress(TASK, order - 1, counts.order)
        adjusted = adjusted_counts(counts, order)
        first = counts.level(order).start
        last = last_counts.get(order) if order < counts.order else None
        discounts = estimated_discounts(order, _counts_of_counts(adjusted, first, last))
        if config.strict_discounts and discounts.problem:
            raise EstimationError(f"{discounts.problem}. Without --strict-discounts, {FALLBACK} would be taken instead")
        contexts = counts.level(order - 1)
        edges = np.linspace(contexts.start, contexts.stop, min(CHUNKS, contexts.stop - contexts.start) + 1)
        fixed = counts.begin, counts.suffixes, adjusted, first, counts.counts, _least_count(config, order)
        taken = np.array([0.0, *discounts.values])
        outputs = probs, log_probs, log_backoffs
        pieces = itertools.pairwise(edges.astype(np.int64).tolist())
        run_all(interpolate, [(start, stop, *fixed, taken, *outputs) for start, stop in pieces])
        if order == 1:
            if not config.interpolate_unigrams:
                unseen = adjusted == 0  # a tokenizer's alphabet or a given list may hold types that the text has not
                unseen[UNKNOWN], unseen[BEGIN] = True, False
                probs[unigrams][unseen] += np.exp(log_backoffs[ROOT]) / np.count_nonzero(unseen)
            probs[1 + BEGIN] = 0
            with np.errstate(divide="ignore"):
                log_probs[unigrams] = np.log(probs[unigrams])
        all_discounts.append(discounts)
    log_probs[ROOT] = log_backoffs[ROOT] = 0  # never asked for
    progress(TASK, counts.order, counts.order)
    return Estimates(log_probs, log_backoffs, tuple(all_discounts), _kept(counts, config))


def adjusted_counts(counts: Counts, order: int) -> Int[ndarray, " ngrams"]:
    """Raw counts at the highest order and after <s>; the number of distinct left neighbours for all others."""
    level = counts.level(order)
    if order == counts.order:
        return counts.counts[level]
    adjusted = np.zeros(level.stop - level.start, counts.counts.dtype)
    run(count_suffixes, counts.suffixes[counts.level(order + 1)], level.start, adjusted)
    first, last = 1 + BEGIN, 2 + BEGIN  # n-grams that begin with <s> are neighbours, since their contexts are
    for _ in range(order - 1):
        first, last = int(counts.begin[first]), int(counts.begin[last])
    adjusted[first - level.start : last - level.start] = counts.counts[first:last]
    return adjusted


def _least_count(config: NGramConfig, order: int) -> int:
    """n-grams seen less often are pruned; no unigram is."""
    return 0 if order == 1 else config.threshold(order) + 1


def _kept(counts: Counts, config: NGramConfig) -> Bool[ndarray, " nodes"] | None:
    if max(config.prune) == 0:
        return None
    kept = np.ones(counts.words.size, np.bool_)
    for order in range(2, counts.order + 1):
        level = counts.level(order)
        kept[level] = counts.counts[level] >= _least_count(config, order)
    return kept


def estimated_discounts(order: int, n: Sequence[int]) -> Discounts:
    """D(j) = j - (j+1) y n(j+1) / n(j) with y = n1 / (n1 + 2 n2), or the fallback with the reason.

    Chen and Goodman (1998), modified Kneser-Ney. n: how many n-grams have an adjusted count of 1, 2, 3, 4.
    """
    for count in (1, 2, 3):
        if n[count - 1] == 0:
            return Discounts(
                order,
                FALLBACK,
                f"order {order}: no {order}-gram has an adjusted count of {count}, so no discount can be estimated",
            )
    y = n[0] / (n[0] + 2 * n[1])
    values = tuple(j - (j + 1) * y * n[j] / n[j - 1] for j in (1, 2, 3))
    for j, value in enumerate(values, start=1):
        if not 0 <= value <= j:
            return Discounts(
                order,
                FALLBACK,
                f"order {order}: the discount for a count of {j} would be {value:.4g}, outside 0 to {j}",
            )
    return Discounts(order, (values[0], values[1], values[2]))


def _counts_of_counts(adjusted: Int[ndarray, " ngrams"], first: int, last: tuple[int, int] | None) -> list[int]:
    """How many n-grams have an adjusted count of 1, 2, 3, 4.

    first: their first node. last: a node that is taken with another count, and that count.
    """
    n = run(counts_of_counts, adjusted)
    if last is not None:
        node, count = last
        n[min(adjusted[node - first], 5)] -= 1
        n[min(count, 5)] += 1
    return [int(value) for value in n[1:5]]


def _raw_counts_of_last_suffixes(counts: Counts) -> dict[int, tuple[int, int]]:
    """By order, the node and raw count of the suffix of that n-gram of the highest order which comes last by suffix."""
    highest = counts.level(counts.order)
    if highest.start == highest.stop:
        return {}
    nodes = {counts.order: np.arange(highest.start, highest.stop)}
    for order in range(counts.order, 1, -1):
        nodes[order - 1] = counts.suffixes[nodes[order]]
    # Suffix order compares the last word first: the only word of the shortest suffix. lexsort's last key counts most.
    last = int(np.lexsort([_first_words(counts, order)[nodes[order]] for order in nodes])[-1])
    return {order: (int(nodes[order][last]), int(counts.counts[nodes[order][last]])) for order in nodes}


def _first_words(counts: Counts, order: int) -> Int[ndarray, " nodes"]:
    """The first word of every n-gram up to an order, by node."""
    words = [np.zeros(1, counts.words.dtype), counts.words[counts.level(1)]]
    for n in range(1, order):
        begin = counts.begin[counts.level(n).start : counts.level(n).stop + 1]
        words.append(np.repeat(words[-1], np.diff(begin)))
    return np.concatenate(words)
