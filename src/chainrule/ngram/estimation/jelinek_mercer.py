"""Jelinek-Mercer smoothing: interpolates the orders with weights from expectation maximisation.

Sources: Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980); Bahl, Jelinek
and Mercer, A maximum likelihood approach to continuous speech recognition (1983), for weights by the context's count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run
from chainrule.ngram.estimation.estimation_kernels import expect
from chainrule.ngram.estimation.heldout import (
    Events,
    bottom_shares,
    count_pruned,
    counts_of,
    heldout_events,
    totals_of,
    training_events,
    values_at,
)
from chainrule.ngram.estimation.passes import Contexts, interpolate_by_weights
from chainrule.ngram.trie.query_kernels import NO_NODE

if TYPE_CHECKING:
    from jaxtyping import Float64, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.estimation.estimates import Estimates

TASK = "finding weights"
BUCKETS = 32  # by the binary logarithm of the context's count
_MAX_STEPS = 200
_TOLERANCE = 1e-6  # nats an event: a step that gains less is the last
_INITIAL_WEIGHT = 0.5


def jelinek_mercer(
    counts: Counts,
    config: NGramConfig,
    progress: Progress = silent,
    heldout: Int32[ndarray, " tokens"] | None = None,
) -> Estimates:
    """Return p(w|h) = l(h) c(hw) / c(h) + (1 - l(h)) p(w|h'), with a weight l for each order and size of c(h), or each
    order.

    Pruned mass goes to the lower order, too. The weights maximise the likelihood of `heldout`, a stream; without it,
    that of the training text, each word left out of the counts when it is predicted. config.weights are taken
    unchanged. Raises EstimationError where the stream shares no word with the vocabulary.
    """
    if config.weights:
        return _interpolate(counts, config, _weights_of_shares(config.weights, config.order), progress)
    heldout_chains = None if heldout is None else _chains(counts, config, heldout_events(counts, config, heldout))
    weights = _fit_weights(_chains(counts, config, training_events(counts, config)), config, progress)
    if heldout_chains is not None:
        tuned = _fit_weights(heldout_chains, config, progress)
        if heldout_chains.expect(tuned).log_likelihood > heldout_chains.expect(weights).log_likelihood:
            weights = tuned  # otherwise the held-out text is too small to tune on
    return _interpolate(counts, config, weights, progress)


def _interpolate(
    counts: Counts, config: NGramConfig, weights: Float64[ndarray, "order buckets"], progress: Progress
) -> Estimates:
    """Return the pass with these weights, which go into the record."""

    def weights_of(contexts: Contexts) -> Float64[ndarray, " contexts"]:
        return weights[contexts.order - 1][_buckets(contexts.totals, weights.shape[1])]

    estimates = interpolate_by_weights(counts, config, weights_of, progress)
    return replace(estimates, record={"weights": [_without_repeats(row) for row in weights.tolist()]})


def _weights_of_shares(shares: tuple[float, ...], order: int) -> Float64[ndarray, "order 1"]:
    """Return the weight l of each order against those below it: its part of the sum of its share and theirs.

    shares: those of the orders, from unigrams up, perhaps after that of the uniform distribution.
    """
    together = np.cumsum(shares)[-order:]
    own = np.array(shares[-order:])
    return np.divide(own, together, out=np.zeros(order), where=together > 0)[:, None]


class _Expected(NamedTuple):
    """Expected numbers of events by order and bucket; see `expect`."""

    log_likelihood: float
    stopped: Float64[ndarray, "order buckets"]
    reached: Float64[ndarray, "order buckets"]


@dataclass(frozen=True)
class _Chains:
    """Events, with the estimates of every order, a column for each order. counts: how often each event occurs.

    shares: c(hw) / c(h). pruned: the share of c(h) that was pruned. buckets: the index of the weight; -1 where h is
    unseen. bottoms: the probability below the unigrams.
    """

    shares: Float64[ndarray, "events order"]
    pruned: Float64[ndarray, "events order"]
    buckets: Int32[ndarray, "events order"]
    bottoms: Float64[ndarray, " events"]
    counts: Float64[ndarray, " events"]

    def expect(self, weights: Float64[ndarray, "order buckets"]) -> _Expected:
        """Return the expectation step with these weights."""
        stopped, reached = np.zeros(weights.shape), np.zeros(weights.shape)
        events = self.shares, self.pruned, self.buckets, self.counts, self.bottoms
        log_likelihood = run(expect, *events, weights.reshape(-1), stopped.reshape(-1), reached.reshape(-1))
        return _Expected(log_likelihood, stopped, reached)


def _chains(counts: Counts, config: NGramConfig, events: Events) -> _Chains:
    size = _size(config)
    shares, pruned = np.zeros(events.nodes.shape), np.zeros(events.nodes.shape)
    buckets = np.full(events.nodes.shape, -1, np.int32)
    for k in range(counts.order):
        order, level = k + 1, counts.level(k + 1)
        totals, min_count = totals_of(counts, events, order), config.min_count(order)
        seen_contexts = totals > 0
        nodes = events.nodes[:, k]
        seen = counts_of(events, counts.counts[level], level.start, order)
        is_kept = values_at(counts.counts[level], nodes - level.start, nodes != NO_NODE) >= min_count
        shares[seen_contexts, k] = np.where(is_kept, seen, 0)[seen_contexts] / totals[seen_contexts]
        if min_count > 1:
            pruned[seen_contexts, k] = (
                count_pruned(counts, events, order, min_count)[seen_contexts] / totals[seen_contexts]
            )
        buckets[seen_contexts, k] = k * size + _buckets(totals[seen_contexts], size)
    return _Chains(shares, pruned, buckets, bottom_shares(counts, config, events), events.counts)


def _fit_weights(chains: _Chains, config: NGramConfig, progress: Progress) -> Float64[ndarray, "order buckets"]:
    """Return maximum-likelihood weights.

    An extra event in each bucket, which the lower order predicts, keeps them below 1.
    """
    weights = np.full((chains.shares.shape[1], _size(config)), _INITIAL_WEIGHT)
    previous = -np.inf
    for step in range(_MAX_STEPS):
        progress(TASK, step, None)
        expected = chains.expect(weights)
        weights = expected.stopped / (expected.reached + 1)
        if expected.log_likelihood - previous < _TOLERANCE * chains.counts.sum():
            break
        previous = expected.log_likelihood
    return np.array([_fill_empty_buckets(*rows) for rows in zip(weights, expected.reached, strict=True)])


def _size(config: NGramConfig) -> int:
    """Return the number of weights of each order."""
    return BUCKETS if config.weights_by == "count" else 1


def _buckets(totals: Int[ndarray, " contexts"], size: int) -> Int[ndarray, " contexts"]:
    """Return floor(log2(total)), at most size - 1."""
    return np.clip(np.frexp(totals)[1] - 1, 0, size - 1)


def _fill_empty_buckets(
    weights: Float64[ndarray, " buckets"], reached: Float64[ndarray, " buckets"]
) -> Float64[ndarray, " buckets"]:
    """Give empty buckets the weight of the next lower bucket with events, or else of the next higher one."""
    known = np.flatnonzero(reached)
    if not known.size:
        return np.full(weights.size, _INITIAL_WEIGHT)
    nearest = np.searchsorted(known, np.arange(weights.size), side="right") - 1
    return weights[known[np.maximum(nearest, 0)]]


def _without_repeats(weights: list[float]) -> list[float]:
    """Return the weights without repetitions at the end."""
    while len(weights) > 1 and weights[-1] == weights[-2]:
        weights = weights[:-1]
    return weights
