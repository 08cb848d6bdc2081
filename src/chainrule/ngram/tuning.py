"""Discounts and constants that make a held-out text likeliest."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.jit import run
from chainrule.ngram.additive import lidstone
from chainrule.ngram.heldout import Events, counts_of, heldout_events
from chainrule.ngram.kneser_ney import adjusted_counts
from chainrule.ngram.pass_kernels import sum_kinds
from chainrule.ngram.smoothing import Discounts, Estimates, interpolated_by_discounts, uniform_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting import Counts
    from chainrule.ngram.smoothing import Adjusted
    from chainrule.progress import Progress

TASK = "tuning"
_ROUNDS = 8
_ENOUGH = 1e-6  # nats a word: a round that gains less is the last
_LEAST = 1e-3  # of a discount, so that something is left for the unseen
_BISECTIONS = 30
_FIRST = (0.6, 1.0, 1.4)
_LEAST_PSEUDOCOUNT, _LARGEST_PSEUDOCOUNT = 1e-7, 1e3
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 40


def tuned_absolute(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Absolute discounting with the constants that make a held-out stream likeliest. Raises EstimationError."""

    def raw_counts(order: int) -> Int[ndarray, " ngrams"]:
        return counts.counts[counts.level(order)]

    return _tuned(counts, config, raw_counts, 1, progress, heldout)


def tuned_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated Kneser-Ney with such constants."""
    return _tuned(counts, config, partial(adjusted_counts, counts), 1, progress, heldout)


def tuned_modified_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated modified Kneser-Ney with such discounts, three for each order."""
    return _tuned(counts, config, partial(adjusted_counts, counts), 3, progress, heldout)


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

    constant = math.exp(_highest(log_likelihood, math.log(_LEAST_PSEUDOCOUNT), math.log(_LARGEST_PSEUDOCOUNT)))
    estimates = lidstone(counts, replace(config, pseudocount=constant), progress)
    return replace(estimates, record={"pseudocount": constant})


def _tuned(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: Adjusted,
    size: int,
    progress: Progress,
    heldout: Int32[ndarray, " tokens"],
) -> Estimates:
    """Interpolated discounting with `size` discounts for each order: one for all counts, or for 1, 2, and 3 or more."""
    pricing = _Pricing(counts, config, adjusted_at, heldout_events(counts, config, heldout))
    values = np.array([_FIRST if size == 3 else _FIRST[:1] for _ in range(counts.order)])
    before = -np.inf
    for turn in range(_ROUNDS):
        for order in range(1, counts.order + 1):
            progress(TASK, turn * counts.order + order - 1, None)
            for j in range(size):
                values[order - 1, j] = pricing.best(values, order, j)
        likelihood = float(np.log(pricing.probs(values)).mean())
        if likelihood - before < _ENOUGH:
            break
        before = likelihood
    found = [Discounts(order, tuple(row)) for order, row in enumerate(values.tolist(), start=1)]
    return interpolated_by_discounts(counts, config, adjusted_at, lambda order, _: found[order - 1], progress)


class _Pricing:
    """The probabilities of events, as a function of the discounts.

    p_k = (a - D(a)) / total + sum_j D_j N_j / total p_(k-1): linear in each D_j, so that the likelihood is concave in
    it and bisection finds the best.
    """

    def __init__(self, counts: Counts, config: NGramConfig, adjusted_at: Adjusted, events: Events) -> None:
        shape = counts.order, events.counts.size
        self.uniform = uniform_share(counts, config)
        self.shares, self.inverse, self.free = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.classes = np.zeros(shape, np.int8)
        self.kinds = np.zeros((3, *shape))  # of the words after the context, by their counts: 1, 2, 3 and more
        for order in range(1, counts.order + 1):
            k = order - 1
            adjusted = adjusted_at(order)
            seen = counts_of(events, adjusted, counts.level(order).start, order)
            sums = _context_sums(counts, events, adjusted, order)
            totals = sums[:, 0]
            asked = totals > 0
            self.free[k] = ~asked  # the lower order gets all
            self.inverse[k, asked] = 1 / totals[asked]
            self.shares[k] = seen * self.inverse[k]
            self.classes[k] = np.minimum(seen, 3)
            self.kinds[:, k] = sums[:, 1:].T * self.inverse[k]

    def probs(self, values: Float64[ndarray, "order size"]) -> Float64[ndarray, " events"]:
        """Of each event, with these discounts."""
        found = np.full(self.shares.shape[1], self.uniform)
        for k, row in enumerate(values):
            discounts = np.broadcast_to(row, 3)
            taken = np.concatenate([[0.0], discounts])[self.classes[k]]
            gamma = np.tensordot(discounts, self.kinds[:, k], 1) + self.free[k]
            found = self.shares[k] - taken * self.inverse[k] + gamma * found
        return found

    def best(self, values: Float64[ndarray, "order size"], order: int, j: int) -> float:
        """The j-th discount of an order that makes the events likeliest, the others being what they are."""
        values = values.copy()
        values[order - 1, j] = 0
        without = self.probs(values)
        values[order - 1, j] = 1
        slope = self.probs(values) - without
        low, high = _LEAST, j + 1 - _LEAST
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if float((slope / (without + middle * slope)).sum()) > 0:
                low = middle
            else:
                high = middle
        return (low + high) / 2


def _context_sums(
    counts: Counts, events: Events, adjusted: Int[ndarray, " ngrams"], order: int
) -> Int64[ndarray, "events 4"]:
    """Of the events' contexts, the sum of the counts of what follows, and how many of them are 1, 2, 3 and more."""
    contexts, level = counts.level(order - 1), counts.level(order)
    sums = np.empty((contexts.stop - contexts.start, 4), np.int64)
    run(sum_kinds, contexts.start, contexts.stop, counts.begin, adjusted, level.start, sums)
    found = events.known(order)
    return np.where(found[:, None], sums[np.where(found, events.contexts[:, order - 1] - contexts.start, 0)], 0)


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
