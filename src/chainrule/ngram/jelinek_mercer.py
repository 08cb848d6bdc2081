"""Jelinek-Mercer smoothing: the orders interpolated with weights that expectation maximisation finds.

Sources: Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980); Bahl, Jelinek
and Mercer, A maximum likelihood approach to continuous speech recognition (1983), for buckets by the context's count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.jit import run
from chainrule.ngram.heldout import Events, counts_of, heldout_events, totals_of, training_events
from chainrule.ngram.heldout_kernels import expect
from chainrule.ngram.smoothing import Contexts, Estimates, interpolated_by_weights, uniform_share
from chainrule.progress import Progress, silent

if TYPE_CHECKING:
    from jaxtyping import Float64, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting import Counts

TASK = "finding weights"
BUCKETS = 32  # by the binary logarithm of the context's count
_MOST_STEPS = 200
_ENOUGH = 1e-6  # nats an event: a step that gains less is the last
_FIRST = 0.5


def jelinek_mercer(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
) -> Estimates:
    """p(w|h) = l(h) c(hw) / c(h) + (1 - l(h)) p(w|h'), with a weight l for each order and size of c(h), or each order.

    heldout: a stream whose likelihood the weights maximise. Without it, that of the training text, each word left out
    of the counts when it is predicted. Raises EstimationError.
    """
    events = training_events(counts, config) if heldout is None else heldout_events(counts, config, heldout)
    weights = _maximised(counts, config, events, progress)

    def weights_of(contexts: Contexts) -> Float64[ndarray, " contexts"]:
        return weights[contexts.order - 1][_buckets(contexts.totals, weights.shape[1])]

    estimates = interpolated_by_weights(counts, config, weights_of, progress)
    return replace(estimates, record={"weights": [_shortened(row) for row in weights.tolist()]})


def _maximised(
    counts: Counts, config: NGramConfig, events: Events, progress: Progress
) -> Float64[ndarray, "order buckets"]:
    """The weights. Each bucket is given one more event that the lower order wins, so that none has a weight of one."""
    size = BUCKETS if config.weights_by == "count" else 1
    shares = np.zeros(events.nodes.shape, np.float64)
    buckets = np.full(events.nodes.shape, -1, np.int32)
    for order in range(1, counts.order + 1):
        level = counts.level(order)
        totals = totals_of(counts, events, order)
        asked = totals > 0
        seen = counts_of(events, counts.counts[level], level.start, order)
        shares[asked, order - 1] = seen[asked] / totals[asked]
        buckets[asked, order - 1] = (order - 1) * size + _buckets(totals[asked], size)
    weights = np.full(counts.order * size, _FIRST)
    before = -np.inf
    for step in range(_MOST_STEPS):
        progress(TASK, step, None)
        stopped, reached = np.zeros(weights.size), np.zeros(weights.size)
        likelihood = run(
            expect, shares, buckets, events.counts, uniform_share(counts, config), weights, stopped, reached
        )
        weights = stopped / (reached + 1)
        if likelihood - before < _ENOUGH * events.counts.sum():
            break
        before = likelihood
    return np.array([_filled(*rows) for rows in zip(weights.reshape(-1, size), reached.reshape(-1, size), strict=True)])


def _buckets(totals: Int[ndarray, " contexts"], size: int) -> Int[ndarray, " contexts"]:
    """floor(log2(total)), as far as there are buckets."""
    return np.clip(np.frexp(totals)[1] - 1, 0, size - 1)


def _filled(
    weights: Float64[ndarray, " buckets"], reached: Float64[ndarray, " buckets"]
) -> Float64[ndarray, " buckets"]:
    """A bucket that no event has reached gets the weight of the next lower one that some have, or the next higher."""
    known = np.flatnonzero(reached)
    if not known.size:
        return np.full(weights.size, _FIRST)
    nearest = np.searchsorted(known, np.arange(weights.size), side="right") - 1
    return weights[known[np.maximum(nearest, 0)]]


def _shortened(weights: list[float]) -> list[float]:
    """Without the repetitions at the end."""
    while len(weights) > 1 and weights[-1] == weights[-2]:
        weights = weights[:-1]
    return weights
