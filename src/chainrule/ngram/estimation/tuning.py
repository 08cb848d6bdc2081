"""Discounts and constants that make a held-out text likeliest."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run
from chainrule.ngram.estimation.additive import lidstone
from chainrule.ngram.estimation.discounts import count_of_counts, estimated_discounts, one_discount
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.heldout_events import Events, bottom_shares, counts_of, heldout_events, of_contexts
from chainrule.ngram.estimation.kneser_ney import adjusted_counts
from chainrule.ngram.estimation.pass_kernels import sum_kinds
from chainrule.ngram.estimation.passes import interpolated_by_discounts, raw_counts, uniform_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.passes import Adjusted

TASK = "tuning"
_ROUNDS = 8
_ENOUGH = 1e-6  # nats a word: a round that gains less is the last
_LEAST = 1e-3  # of a discount, so that something is left for the unseen
_BISECTIONS = 30
_LEAST_PSEUDOCOUNT, _LARGEST_PSEUDOCOUNT = 1e-7, 1e3
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 40


def tuned_absolute(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Absolute discounting with the constants that make a held-out stream likeliest. Raises EstimationError."""
    return _tuned(counts, config, partial(raw_counts, counts), partial(one_discount, config), progress, heldout)


def tuned_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated Kneser-Ney with such constants."""
    return _tuned(counts, config, partial(adjusted_counts, counts), partial(one_discount, config), progress, heldout)


def tuned_modified_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated modified Kneser-Ney with such discounts, three for each order."""

    def three_discounts(order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
        return estimated_discounts(order, count_of_counts(adjusted, 4))

    return _tuned(counts, config, partial(adjusted_counts, counts), three_discounts, progress, heldout)


def tuned_lidstone(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Lidstone's smoothing with the constant that makes a held-out stream likeliest. Raises EstimationError."""
    events = heldout_events(counts, config, heldout)
    words = 1 / uniform_share(counts, config)
    seen, totals = np.zeros(events.counts.size), np.zeros(events.counts.size)
    for order in range(1, counts.order + 1):
        here = events.lengths == order
        level = counts.level(order)
        raw = counts.counts[level]
        seen[here] = counts_of(events, raw, level.start, order)[here]
        totals[here] = _context_sums(counts, events, raw, order)[here, 0]

    def log_likelihood(log_constant: float) -> float:
        constant = math.exp(log_constant)
        return float(np.log((seen + constant) / (totals + constant * words)).sum())

    best = _highest(log_likelihood, math.log(_LEAST_PSEUDOCOUNT), math.log(_LARGEST_PSEUDOCOUNT))
    constant = math.exp(max(best, math.log(config.pseudocount), key=log_likelihood))
    estimates = lidstone(counts, replace(config, pseudocount=constant), progress)
    return replace(estimates, record={"pseudocount": constant})


def _tuned(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: Adjusted,
    untuned: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress,
    heldout: Int32[ndarray, " tokens"],
) -> Estimates:
    """Interpolated discounting, each order's discounts tuned in turn, beginning with those that it has untuned."""
    pricing = _Pricing(counts, config, adjusted_at, heldout_events(counts, config, heldout))
    values = np.array([untuned(order, adjusted_at(order)).values for order in range(1, counts.order + 1)])
    before = -np.inf
    for turn in range(_ROUNDS):
        for order in range(1, counts.order + 1):
            progress(TASK, turn * counts.order + order - 1, None)
            for j in range(values.shape[1]):
                values[order - 1, j] = pricing.best(values, order, j)
        likelihood = float(np.log(pricing.probs(values)).mean())
        if likelihood - before < _ENOUGH:
            break
        before = likelihood
    found = [Discounts(order, tuple(row)) for order, row in enumerate(values.tolist(), start=1)]
    return interpolated_by_discounts(counts, config, adjusted_at, lambda order, _: found[order - 1], progress)


class _Pricing:
    """The probabilities of events, as a function of the discounts.

    p_k = (a - D(a)) / total + (sum_j D_j N_j + what was pruned) / total p_(k-1): linear in each D_j, so that the
    likelihood is concave in it and bisection finds the best.
    """

    def __init__(self, counts: Counts, config: NGramConfig, adjusted_at: Adjusted, events: Events) -> None:
        shape = counts.order, events.counts.size
        self.bottoms = bottom_shares(counts, config, events)
        self.shares, self.inverse = np.zeros(shape), np.zeros(shape)
        self.free = np.zeros(shape)  # what the lower order gets whatever is discounted
        self.classes = np.zeros(shape, np.int8)
        self.kinds = np.zeros((3, *shape))  # of the words after the context, by their counts: 1, 2, 3 and more
        for order in range(1, counts.order + 1):
            k, level = order - 1, counts.level(order)
            adjusted = adjusted_at(order)
            kept = np.where(counts.counts[level] >= config.least(order), adjusted, 0)
            seen = counts_of(events, kept, level.start, order)
            totals = _context_sums(counts, events, adjusted, order)[:, 0]
            sums = _context_sums(counts, events, kept, order)
            asked = totals > 0
            self.inverse[k, asked] = 1 / totals[asked]
            self.free[k] = np.where(asked, (totals - sums[:, 0]) * self.inverse[k], 1)
            self.shares[k] = seen * self.inverse[k]
            self.classes[k] = np.minimum(seen, 3)
            self.kinds[:, k] = sums[:, 1:].T * self.inverse[k]

    def probs(self, values: Float64[ndarray, "order size"]) -> Float64[ndarray, " events"]:
        """Of each event, with these discounts."""
        found = self.bottoms
        for k, row in enumerate(values):
            discounts = np.broadcast_to(row, 3)
            taken = np.concatenate([[0.0], discounts])[self.classes[k]]
            gamma = np.tensordot(discounts, self.kinds[:, k], 1) + self.free[k]
            found = self.shares[k] - taken * self.inverse[k] + gamma * found
        return found

    def best(self, values: Float64[ndarray, "order size"], order: int, j: int) -> float:
        """The j-th discount of an order that makes the events likeliest, the others being what they are."""
        before = values[order - 1, j]
        values = values.copy()
        values[order - 1, j] = 0
        without = self.probs(values)
        values[order - 1, j] = 1
        slope = self.probs(values) - without
        without, slope = without[slope != 0], slope[slope != 0]
        low, high = _LEAST, j + 1 - _LEAST
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if float((slope / (without + middle * slope)).sum()) > 0:
                low = middle
            else:
                high = middle
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            here, there = (float(np.log(without + value * slope).sum()) for value in (middle, before))
        return middle if here > there else float(before)


def _context_sums(
    counts: Counts, events: Events, adjusted: Int[ndarray, " ngrams"], order: int
) -> Int64[ndarray, "events 4"]:
    """Of the events' contexts, the sum of the counts of what follows, and how many of them are 1, 2, 3 and more."""
    contexts, level = counts.level(order - 1), counts.level(order)
    sums = np.empty((contexts.stop - contexts.start, 4), np.int64)
    run(sum_kinds, contexts.start, contexts.stop, counts.begin, adjusted, level.start, sums)
    return of_contexts(counts, events, order, sums)


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one peak has it, by golden sections."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_GOLDEN_STEPS):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
