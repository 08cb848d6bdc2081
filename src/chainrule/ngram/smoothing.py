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
from chainrule.progress import Progress, silent
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float32, Float64, Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting import Level

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
    """The probabilities of one order; as long as the level that they belong to, pruned n-grams included."""

    log_probs: Float32[ndarray, " ngrams"]
    log_backoffs: Float32[ndarray, " contexts"]  # of the contexts, one order down: log gamma
    kept: Bool[ndarray, " ngrams"]
    discounts: Discounts


def modified_kneser_ney(levels: Sequence[Level], config: NGramConfig, progress: Progress = silent) -> list[Estimates]:
    """The estimates of orders 1 .. len(levels).

    p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) p(w|h'), where gamma(h) holds all that was discounted and
    pruned after h. Raises EstimationError under config.strict_discounts.
    """
    vocabulary_size = len(levels[0])
    # The bottom is uniform over all words but <s>, which is never predicted; or it is <unk>, added below.
    lower: Float64[ndarray, " ngrams"] = np.array([1 / (vocabulary_size - 1) if config.interpolate_unigrams else 0.0])
    last_counts = _raw_counts_of_last_suffixes(levels) if config.kenlm_compatible else {}
    estimates = []
    for i, level in enumerate(levels):
        progress(TASK, i, len(levels))
        order = i + 1
        adjusted = adjusted_counts(levels, order)
        discounts = estimated_discounts(
            order, _counts_of_counts(adjusted, last_counts.get(order) if order < len(levels) else None)
        )
        if config.strict_discounts and discounts.problem:
            raise EstimationError(f"{discounts.problem}. Without --strict-discounts, {FALLBACK} would be taken instead")
        kept = level.counts > config.threshold(order)
        if order == 1:
            kept = np.ones(vocabulary_size, np.bool_)
        asked_for = order == 1 or order < len(levels)  # below, or by the next order
        log_probs, log_backoffs, lower = _interpolated(level, adjusted, kept, discounts, lower, keep_probs=asked_for)
        if order == 1:
            if not config.interpolate_unigrams:
                lower[UNKNOWN] += np.exp(log_backoffs[0])
            lower[BEGIN] = 0
            with np.errstate(divide="ignore"):
                log_probs = np.log(lower).astype(np.float32)
        estimates.append(Estimates(log_probs, log_backoffs, kept, discounts))
    progress(TASK, len(levels), len(levels))
    return estimates


def adjusted_counts(levels: Sequence[Level], order: int) -> Int[ndarray, " ngrams"]:
    """Raw counts at the highest order and after <s>; the number of distinct left neighbours for all others."""
    level = levels[order - 1]
    if order == len(levels):
        return level.counts
    adjusted = np.zeros(len(level), level.counts.dtype)
    run(count_suffixes, levels[order].suffixes, adjusted)
    first, last = BEGIN, BEGIN + 1  # n-grams that begin with <s> are neighbours, since their contexts are
    for above in levels[1:order]:
        first, last = int(above.begin[first]), int(above.begin[last])
    adjusted[first:last] = level.counts[first:last]
    return adjusted


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


def _interpolated(
    level: Level,
    adjusted: Int[ndarray, " ngrams"],
    kept: Bool[ndarray, " ngrams"],
    discounts: Discounts,
    lower: Float64[ndarray, " lower_ngrams"],
    *,
    keep_probs: bool,
) -> tuple[Float32[ndarray, " ngrams"], Float32[ndarray, " contexts"], Float64[ndarray, " ngrams"]]:
    contexts = level.begin.size - 1
    probs = np.empty(len(level) if keep_probs else 0, np.float64)
    log_probs, log_backoffs = np.empty(len(level), np.float32), np.empty(contexts, np.float32)
    edges = np.linspace(0, contexts, min(CHUNKS, contexts) + 1).astype(np.int64).tolist()
    taken = np.array([0.0, *discounts.values])
    arrays = (level.begin, level.suffixes, adjusted, kept, taken, lower, probs, log_probs, log_backoffs)
    run_all(interpolate, [(start, stop, *arrays) for start, stop in itertools.pairwise(edges)])
    return log_probs, log_backoffs, probs


def _counts_of_counts(adjusted: Int[ndarray, " ngrams"], last: tuple[int, int] | None) -> list[int]:
    """How many n-grams have an adjusted count of 1, 2, 3, 4.

    last: the id of an n-gram that is taken with another count, and that count.
    """
    n = run(counts_of_counts, adjusted)
    if last is not None:
        ngram, count = last
        n[min(adjusted[ngram], 5)] -= 1
        n[min(count, 5)] += 1
    return [int(value) for value in n[1:5]]


def _raw_counts_of_last_suffixes(levels: Sequence[Level]) -> dict[int, tuple[int, int]]:
    """By order, the id and raw count of the suffix of that n-gram of the highest order which suffix order puts last."""
    if not len(levels[-1]):
        return {}
    ids = {len(levels): np.arange(len(levels[-1]))}
    for order in range(len(levels), 1, -1):
        ids[order - 1] = levels[order - 1].suffixes[ids[order]]
    # Suffix order compares the last word first: the only word of the shortest suffix. lexsort's last key counts most.
    last = int(np.lexsort([_first_words(levels, order)[ids[order]] for order in ids])[-1])
    return {order: (int(ids[order][last]), int(levels[order - 1].counts[ids[order][last]])) for order in ids}


def _first_words(levels: Sequence[Level], order: int) -> Int[ndarray, " ngrams"]:
    """The first word of every n-gram of an order."""
    words: Int[ndarray, " ngrams"] = levels[0].words
    for level in levels[1:order]:
        words = np.repeat(words, np.diff(level.begin))
    return words
