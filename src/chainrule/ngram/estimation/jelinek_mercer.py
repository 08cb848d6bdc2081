"""Jelinek-Mercer smoothing: the orders interpolated with weights that expectation maximisation finds.

Sources: Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980); Bahl, Jelinek
and Mercer, A maximum likelihood approach to continuous speech recognition (1983), for buckets by the context's count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.jit import run
from chainrule.base.progress import Progress, silent
from chainrule.ngram.estimation.heldout_events import (
    Events,
    at,
    bottom_shares,
    counts_of,
    heldout_events,
    pruned_of,
    totals_of,
    training_events,
)
from chainrule.ngram.estimation.heldout_kernels import expect
from chainrule.ngram.estimation.passes import Contexts, interpolated_by_weights
from chainrule.ngram.trie.query_kernels import NO_NODE

if TYPE_CHECKING:
    from jaxtyping import Float64, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates

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

    What was pruned goes to the lower order, too. heldout: a stream whose likelihood the weights maximise. Without it,
    that of the training text, each word left out of the counts when it is predicted. Raises EstimationError.
    """
    heldout_chains = None if heldout is None else _chains(counts, config, heldout_events(counts, config, heldout))
    weights = _maximised(_chains(counts, config, training_events(counts, config)), config, progress)
    if heldout_chains is not None:
        tuned = _maximised(heldout_chains, config, progress)
        if heldout_chains.expect(tuned).likelihood > heldout_chains.expect(weights).likelihood:
            weights = tuned  # or else there is too little text to tune on

    def weights_of(contexts: Contexts) -> Float64[ndarray, " contexts"]:
        return weights[contexts.order - 1][_buckets(contexts.totals, weights.shape[1])]

    estimates = interpolated_by_weights(counts, config, weights_of, progress)
    return replace(estimates, record={"weights": [_shortened(row) for row in weights.tolist()]})


class _Expected(NamedTuple):
    """By order and bucket, how often its counts are expected to have given the word, and to have been asked."""

    likelihood: float  # its logarithm
    stopped: Float64[ndarray, "order buckets"]
    reached: Float64[ndarray, "order buckets"]


@dataclass(frozen=True)
class _Chains:
    """Words to be predicted; what each order says of them, column by column. counts: how often each is there.

    shares: c(hw) / c(h). passed: the share of c(h) that was pruned. buckets: of the orders' weights; -1 where the order
    is not asked. bottoms: what each word has below the unigrams.
    """

    shares: Float64[ndarray, "events order"]
    passed: Float64[ndarray, "events order"]
    buckets: Int32[ndarray, "events order"]
    bottoms: Float64[ndarray, " events"]
    counts: Float64[ndarray, " events"]

    def expect(self, weights: Float64[ndarray, "order buckets"]) -> _Expected:
        """A step of expectation with these weights."""
        stopped, reached = np.zeros(weights.shape), np.zeros(weights.shape)
        given = self.shares, self.passed, self.buckets, self.counts, self.bottoms
        likelihood = run(expect, *given, weights.reshape(-1), stopped.reshape(-1), reached.reshape(-1))
        return _Expected(likelihood, stopped, reached)


def _chains(counts: Counts, config: NGramConfig, events: Events) -> _Chains:
    size = _size(config)
    shares, passed = np.zeros(events.nodes.shape), np.zeros(events.nodes.shape)
    buckets = np.full(events.nodes.shape, -1, np.int32)
    for k in range(counts.order):
        order, level = k + 1, counts.level(k + 1)
        totals, least = totals_of(counts, events, order), config.least(order)
        asked = totals > 0
        nodes = events.nodes[:, k]
        seen = counts_of(events, counts.counts[level], level.start, order)
        is_kept = at(counts.counts[level], nodes - level.start, nodes != NO_NODE) >= least
        shares[asked, k] = np.where(is_kept, seen, 0)[asked] / totals[asked]
        if least > 1:
            passed[asked, k] = pruned_of(counts, events, order, least)[asked] / totals[asked]
        buckets[asked, k] = k * size + _buckets(totals[asked], size)
    return _Chains(shares, passed, buckets, bottom_shares(counts, config, events), events.counts)


def _maximised(chains: _Chains, config: NGramConfig, progress: Progress) -> Float64[ndarray, "order buckets"]:
    """The weights. Each bucket is given one more event that the lower order wins, so that none has a weight of one."""
    weights = np.full((chains.shares.shape[1], _size(config)), _FIRST)
    before = -np.inf
    for step in range(_MOST_STEPS):
        progress(TASK, step, None)
        expected = chains.expect(weights)
        weights = expected.stopped / (expected.reached + 1)
        if expected.likelihood - before < _ENOUGH * chains.counts.sum():
            break
        before = expected.likelihood
    return np.array([_filled(*rows) for rows in zip(weights, expected.reached, strict=True)])


def _size(config: NGramConfig) -> int:
    """How many weights an order has."""
    return BUCKETS if config.weights_by == "count" else 1


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
