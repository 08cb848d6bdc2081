"""Tunes discounts and pseudocounts to the likelihood of a held-out text."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run
from chainrule.ngram.estimation.additive import lidstone
from chainrule.ngram.estimation.discounts import counts_of_counts, estimate_discounts, single_discount
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.heldout_events import Events, bottom_shares, context_values, counts_of, heldout_events
from chainrule.ngram.estimation.kneser_ney import adjusted_counts
from chainrule.ngram.estimation.pass_kernels import sum_by_count
from chainrule.ngram.estimation.passes import interpolate_by_discounts, raw_counts, uniform_share

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.passes import AdjustedCounts

TASK = "tuning"
_ROUNDS = 8
_TOLERANCE = 1e-6  # nats a word: a round that gains less is the last
_MIN_DISCOUNT = 1e-3  # so that some mass is left for the unseen
_BISECTIONS = 30
_MIN_PSEUDOCOUNT, _MAX_PSEUDOCOUNT = 1e-7, 1e3
_GOLDEN = (math.sqrt(5) - 1) / 2
_GOLDEN_STEPS = 40


def tune_absolute(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Absolute discounting; the constants maximise the likelihood of a held-out stream. Raises EstimationError."""
    return _tune(counts, config, partial(raw_counts, counts), partial(single_discount, config), progress, heldout)


def tune_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated Kneser-Ney, its constants tuned likewise."""
    return _tune(counts, config, partial(adjusted_counts, counts), partial(single_discount, config), progress, heldout)


def tune_modified_kneser_ney(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Interpolated modified Kneser-Ney, its three discounts of each order tuned likewise."""

    def three_discounts(order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
        return estimate_discounts(order, counts_of_counts(adjusted, 4))

    return _tune(counts, config, partial(adjusted_counts, counts), three_discounts, progress, heldout)


def tune_lidstone(
    counts: Counts, config: NGramConfig, progress: Progress, heldout: Int32[ndarray, " tokens"]
) -> Estimates:
    """Lidstone smoothing; the pseudocount maximises the likelihood of a held-out stream. Raises EstimationError."""
    events = heldout_events(counts, config, heldout)
    words = 1 / uniform_share(counts, config)
    seen, totals = np.zeros(events.counts.size), np.zeros(events.counts.size)
    for order in range(1, counts.order + 1):
        is_longest = events.lengths == order
        level = counts.level(order)
        raw = counts.counts[level]
        seen[is_longest] = counts_of(events, raw, level.start, order)[is_longest]
        totals[is_longest] = _context_sums(counts, events, raw, order)[is_longest, 0]

    def log_likelihood(log_constant: float) -> float:
        constant = math.exp(log_constant)
        return float(np.log((seen + constant) / (totals + constant * words)).sum())

    best = _argmax(log_likelihood, math.log(_MIN_PSEUDOCOUNT), math.log(_MAX_PSEUDOCOUNT))
    constant = math.exp(max(best, math.log(config.pseudocount), key=log_likelihood))
    estimates = lidstone(counts, replace(config, pseudocount=constant), progress)
    return replace(estimates, record={"pseudocount": constant})


def _tune(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: AdjustedCounts,
    initial: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress,
    heldout: Int32[ndarray, " tokens"],
) -> Estimates:
    """Interpolated discounting; tunes each order's discounts in turn, starting from the `initial` ones."""
    model = _EventModel(counts, config, adjusted_at, heldout_events(counts, config, heldout))
    values = np.array([initial(order, adjusted_at(order)).values for order in range(1, counts.order + 1)])
    previous = -np.inf
    for iteration in range(_ROUNDS):
        for order in range(1, counts.order + 1):
            progress(TASK, iteration * counts.order + order - 1, None)
            for j in range(values.shape[1]):
                values[order - 1, j] = model.best_discount(values, order, j)
        likelihood = float(np.log(model.probs(values)).mean())
        if likelihood - previous < _TOLERANCE:
            break
        previous = likelihood
    tuned = [Discounts(order, tuple(row)) for order, row in enumerate(values.tolist(), start=1)]
    return interpolate_by_discounts(counts, config, adjusted_at, lambda order, _: tuned[order - 1], progress)


class _EventModel:
    """The probabilities of held-out events as a function of the discounts.

    p_k = (a - D(a)) / total + (sum_j D_j N_j + pruned) / total p_(k-1). This is linear in each D_j, so the
    log-likelihood is concave in it, and bisection finds the optimum.
    """

    def __init__(self, counts: Counts, config: NGramConfig, adjusted_at: AdjustedCounts, events: Events) -> None:
        shape = counts.order, events.counts.size
        self.bottoms = bottom_shares(counts, config, events)
        self.shares, self.inverse = np.zeros(shape), np.zeros(shape)
        self.free = np.zeros(shape)  # the lower order's share apart from discounts: pruned mass, or all
        self.count_classes = np.zeros(shape, np.int8)
        self.types = np.zeros((3, *shape))  # after the context with counts 1, 2, and 3 or more, over the total
        for order in range(1, counts.order + 1):
            k, level = order - 1, counts.level(order)
            adjusted = adjusted_at(order)
            kept = np.where(counts.counts[level] >= config.min_count(order), adjusted, 0)
            seen = counts_of(events, kept, level.start, order)
            totals = _context_sums(counts, events, adjusted, order)[:, 0]
            sums = _context_sums(counts, events, kept, order)
            is_seen = totals > 0
            self.inverse[k, is_seen] = 1 / totals[is_seen]
            self.free[k] = np.where(is_seen, (totals - sums[:, 0]) * self.inverse[k], 1)
            self.shares[k] = seen * self.inverse[k]
            self.count_classes[k] = np.minimum(seen, 3)
            self.types[:, k] = sums[:, 1:].T * self.inverse[k]

    def probs(self, values: Float64[ndarray, "order size"]) -> Float64[ndarray, " events"]:
        """The probability of each event with these discounts."""
        probs = self.bottoms
        for k, row in enumerate(values):
            discounts = np.broadcast_to(row, 3)
            subtracted = np.concatenate([[0.0], discounts])[self.count_classes[k]]
            gamma = np.tensordot(discounts, self.types[:, k], 1) + self.free[k]
            probs = self.shares[k] - subtracted * self.inverse[k] + gamma * probs
        return probs

    def best_discount(self, values: Float64[ndarray, "order size"], order: int, j: int) -> float:
        """The j-th discount of an order that maximises the likelihood, all others being fixed."""
        current = values[order - 1, j]
        values = values.copy()
        values[order - 1, j] = 0
        without = self.probs(values)
        values[order - 1, j] = 1
        slope = self.probs(values) - without
        without, slope = without[slope != 0], slope[slope != 0]
        low, high = _MIN_DISCOUNT, j + 1 - _MIN_DISCOUNT
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if float((slope / (without + middle * slope)).sum()) > 0:
                low = middle
            else:
                high = middle
        middle = (low + high) / 2
        with np.errstate(divide="ignore"):
            at_middle, at_current = (float(np.log(without + value * slope).sum()) for value in (middle, current))
        return middle if at_middle > at_current else float(current)


def _context_sums(
    counts: Counts, events: Events, adjusted: Int[ndarray, " ngrams"], order: int
) -> Int64[ndarray, "events 4"]:
    """For the events' contexts, the sum of the counts after each, and how many of these are 1, 2, and 3 or more."""
    contexts, level = counts.level(order - 1), counts.level(order)
    sums = np.empty((contexts.stop - contexts.start, 4), np.int64)
    run(sum_by_count, contexts.start, contexts.stop, counts.begin, adjusted, level.start, sums)
    return context_values(counts, events, order, sums)


def _argmax(function: Callable[[float], float], low: float, high: float) -> float:
    """The argument of the maximum of a unimodal function, by golden-section search."""
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
