"""The passes from counts to probabilities, over the levels of the trie, that all estimators consist of.

An estimator chooses the discounts, or the weights of contexts against the lower order; a pass does the rest, from the
unigrams up, each order from the one below. `estimators.py` lists all estimators.

Sources: Chen and Goodman, An empirical study of smoothing techniques for language modeling (1998), sections 2 and 3;
Heafield et al., Scalable modified Kneser-Ney language model estimation (ACL 2013), section 3, for sentence boundaries
and pruning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.base.scratch import parts_released, release_pages
from chainrule.base.threads import run_all
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counts import begin_nodes
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.estimation_kernels import back_off, divide, interpolate, read_lower, sum_children, weigh
from chainrule.ngram.trie.table import ROOT, parts_by_children
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Bool, Float, Float32, Float64, Int, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

CHUNKS = 64  # parts of the work, for threads
_NODE_BYTES = 400  # of memory for a node on disk, so that the parts at work take a tenth of it
TASK = "smoothing"
PRUNED = -1  # a count below any threshold


class AdjustedCounts(Protocol):
    """Returns the counts of an order that discounts are subtracted from: raw, or adjusted as by Kneser-Ney."""

    def __call__(self, order: int, buffer: Int[ndarray, " ngrams"] | None = None, /) -> Int[ndarray, " ngrams"]:
        """Return the counts of an order. buffer: memory for counts that have to be computed."""


def raw_counts(counts: Counts, order: int, buffer: Int[ndarray, " ngrams"] | None = None) -> Int[ndarray, " ngrams"]:
    """Return the counts of an order, unadjusted."""
    return counts.counts[counts.level(order)]


@dataclass(frozen=True)
class Contexts:
    """Contexts of one order, the nodes from `start` on: the number of tokens and of types that follow each."""

    order: int  # of the n-grams after them
    start: int
    totals: Int64[ndarray, " contexts"]
    types: Int64[ndarray, " contexts"]


def interpolate_by_discounts(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: AdjustedCounts,
    discounts_at: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress = silent,
    *,
    words: int | None = None,
) -> Estimates:
    """Return p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) p(w|h'), for all orders.

    gamma(h): the mass that was discounted and pruned after h. An n-gram with the count PRUNED is pruned at any order.
    discounts_at: a function of an order and its counts; one discount or three. words: the number of words that share
    the uniform distribution; by default all but <s>. Raises EstimationError under config.strict_discounts.
    """
    passes = _Passes(counts, config, np.float32)
    if words is not None and config.interpolate_unigrams:
        passes.probs[ROOT] = 1 / words
    for order in passes.orders(progress):
        adjusted = adjusted_at(order, passes.buffer(order))
        values = passes.add_discounts(discounts_at(order, adjusted)).values
        by_count = np.concatenate([[0.0], np.broadcast_to(values, 3)])  # a single discount serves for D1, D2 and D3+
        passes.read_lower(order)
        fixed = counts.begin, adjusted, counts.level(order).start, counts.counts, config.min_count(order)
        passes.run(interpolate, [(*piece, *fixed, by_count, *passes.outputs) for piece in passes.pieces(order)])
    return passes.estimates()


def back_off_by_discounts(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: AdjustedCounts,
    discounts_at: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress = silent,
) -> Estimates:
    """Return p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) where hw was seen, and gamma(h) p(w|h') where it was not.

    gamma(h) makes the distribution sum to one. discounts_at: a function of an order and its counts; discounts of counts
    1, 2, ..., the last one also of all larger counts. Raises EstimationError under config.strict_discounts.
    """
    passes = _Passes(counts, config, np.float64)  # 1 - sum needs more than float32
    for order in passes.orders(progress):
        adjusted = adjusted_at(order)
        by_count = np.array([0.0, *passes.add_discounts(discounts_at(order, adjusted)).values])
        fixed = (
            counts.begin,
            counts.suffixes,
            adjusted,
            counts.level(order).start,
            counts.counts,
            config.min_count(order),
        )
        passes.run(back_off, [(*piece, *fixed, by_count, *passes.outputs) for piece in passes.pieces(order)])
    return passes.estimates()


def interpolate_by_weights(
    counts: Counts,
    config: NGramConfig,
    weights_of: Callable[[Contexts], Float64[ndarray, " contexts"]],
    progress: Progress = silent,
) -> Estimates:
    """Return p(w|h) = weight(h) c(hw) / c(h) + (1 - weight(h)) p(w|h'), for all orders; pruned mass goes to p(w|h'),
    too.

    weights_of: the weights of contexts; ignored for those that nothing follows.
    """
    passes = _Passes(counts, config, np.float32)
    for order in passes.orders(progress):
        level, min_count = counts.level(order), config.min_count(order)
        passes.read_lower(order)

        def weigh_piece(
            start: int, stop: int, order: int = order, level: slice = level, min_count: int = min_count
        ) -> None:
            contexts = _contexts(counts, order, level, start, stop)
            weights = np.ascontiguousarray(weights_of(contexts), np.float64)
            fixed = counts.begin, counts.counts, min_count
            weigh(start, stop, *fixed, contexts.totals, weights, *passes.outputs)

        passes.run(weigh_piece, passes.pieces(order))
    return passes.estimates()


def relative_frequencies(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """Return c(hw) / c(h) for all orders, and 0 for unseen n-grams; not a distribution once orders are mixed."""
    passes = _Passes(counts, config, np.float32)
    for order in passes.orders(progress):
        level = counts.level(order)

        def divide_piece(start: int, stop: int, order: int = order, level: slice = level) -> None:
            totals = _contexts(counts, order, level, start, stop).totals
            divide(start, stop, counts.begin, counts.counts, totals, *passes.outputs)

        passes.run(divide_piece, passes.pieces(order))
    return passes.estimates()


def uniform_share(counts: Counts, config: NGramConfig) -> float:
    """Return the uniform probability: every word gets one share, except <s>, and <unk> if a closed vocabulary never saw
    it.
    """
    return 1 / (counts.level_sizes[0] - 1 - excludes_unknown(counts, config))


def excludes_unknown(counts: Counts, config: NGramConfig) -> bool:
    """Return whether <unk> gets no probability: in a closed vocabulary, if the text has none."""
    return not config.open_vocabulary and counts.counts[1 + UNKNOWN] == 0


def check_discounts(discounts: Discounts, config: NGramConfig) -> Discounts:
    """Return the discounts. Raises EstimationError where they are a fallback and config.strict_discounts forbids it."""
    if config.strict_discounts and discounts.problem:
        raise EstimationError(f"{discounts.problem}; strict_discounts=False would use {discounts.fallback} instead")
    return discounts


def finish_unigrams(
    counts: Counts,
    config: NGramConfig,
    log_backoff: float,
    probs: Float[ndarray, " V"],
    log_probs: Float32[ndarray, " V"],
) -> None:
    """Give words that the text lacks their share, <s> nothing, and write `log_probs`, after the unigrams' pass.

    log_backoff: that of the empty context, in nats.
    """
    if not config.interpolate_unigrams:
        # A tokenizer's alphabet or a given vocabulary may have types that the text lacks.
        unseen = counts.counts[counts.level(1)] == 0
        unseen[UNKNOWN], unseen[BEGIN] = True, False
        probs[unseen] += np.exp(np.float32(log_backoff)) / np.count_nonzero(unseen)
    probs[BEGIN] = 0
    if excludes_unknown(counts, config):
        probs[UNKNOWN] = 0
    with np.errstate(divide="ignore"):
        log_probs[:] = np.log(probs)


def _contexts(counts: Counts, order: int, level: slice, start: int, stop: int) -> Contexts:
    totals, types = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
    sum_children(start, stop, counts.begin, counts.counts[level], level.start, totals, types)
    return Contexts(order, start, totals, types)


class _Passes:
    """The arrays that the passes fill, and the work before, between and after the passes."""

    def __init__(self, counts: Counts, config: NGramConfig, precision: type) -> None:
        self.counts, self.config = counts, config
        inner, unigrams = counts.begin.size - 1, counts.level(1)
        if counts.records is None:
            self.log_probs = counts.new_array(counts.words.size, np.float32)
            self.log_backoffs = counts.new_array(inner, np.float32)
        else:
            self.log_probs = counts.records.nodes["log_prob"]
            self.log_backoffs = counts.records.contexts["log_backoff"]  # and one that is not used: see `Table.columns`
        # Probabilities by node, for the higher orders and for finishing the unigrams.
        self.probs = counts.new_array(max(inner, unigrams.stop), precision)
        # Below the unigrams: uniform over all words but <s>; else the mass goes to <unk> and unseen words afterwards.
        self.probs[ROOT] = uniform_share(counts, config) if config.interpolate_unigrams else 0
        self._discounts: list[Discounts] = []

    @property
    def outputs(self) -> tuple[ndarray, ndarray, ndarray]:
        return self.probs, self.log_probs, self.log_backoffs

    def orders(self, progress: Progress) -> Iterator[int]:
        """Yield the orders from 1 up; finish the unigrams after their pass."""
        for order in range(1, self.counts.order + 1):
            progress(TASK, order - 1, self.counts.order)
            yield order
            if order == 1:
                unigrams = self.counts.level(1)
                outputs = self.probs[unigrams], self.log_probs[unigrams]
                finish_unigrams(self.counts, self.config, float(self.log_backoffs[ROOT]), *outputs)
        progress(TASK, self.counts.order, self.counts.order)

    def pieces(self, order: int) -> list[tuple[int, int]]:
        """Return the contexts of the n-grams of an order, in parts for threads with about as many n-grams each."""
        parts = len(self._pieces(self.counts.level(order)))
        return parts_by_children(self.counts.begin, self.counts.level(order - 1), parts)

    def run(self, compiled: Callable[..., None], calls: Sequence[tuple[Any, ...]]) -> None:
        """Call a function with each of several argument tuples, on threads."""
        on_disk = self.counts.memory is not None
        run_all(compiled, calls, on_done=(lambda done: release_pages()) if on_disk else None)

    def read_lower(self, order: int) -> None:
        """Write the probability of each n-gram's suffix where its own will be."""
        suffixes, level, lower = self.counts.suffixes, self.counts.level(order), self.counts.level(order - 1)
        for span in self.counts.resident_parts(lower, self.probs.itemsize):
            probs = self.counts.resident(self.probs[span])
            fixed = suffixes, probs, span.start, self.log_probs
            self.run(read_lower, [(*piece, *fixed) for piece in self._pieces(level)])

    def _pieces(self, nodes: slice) -> list[tuple[int, int]]:
        """Cut a range of nodes into parts for threads, more of them where the nodes are on disk."""
        size = nodes.stop - nodes.start
        parts = CHUNKS if self.counts.memory is None else max(CHUNKS, -(-size * _NODE_BYTES // self.counts.memory))
        edges = np.linspace(nodes.start, nodes.stop, min(parts, size) + 1)
        return list(itertools.pairwise(edges.astype(np.int64).tolist()))

    def buffer(self, order: int) -> Int[ndarray, " ngrams"] | None:
        """Return memory for the counts of an order until `interpolate` overwrites them; None where there is too
        little.
        """
        counts, level = self.counts.counts, self.counts.level(order)
        fits = counts.itemsize == self.probs.itemsize and level.stop <= self.probs.size
        return self.probs[level].view(counts.dtype) if fits else None

    def add_discounts(self, discounts: Discounts) -> Discounts:
        """Record the discounts of the next order. Raises EstimationError under config.strict_discounts."""
        self._discounts.append(check_discounts(discounts, self.config))
        return discounts

    def estimates(self) -> Estimates:
        self.log_probs[ROOT] = self.log_backoffs[ROOT] = 0  # never queried
        discounts, records = tuple(self._discounts), self.counts.records
        log_backoffs = self.log_backoffs[: self.counts.begin.size - 1]
        return Estimates(self.log_probs, log_backoffs, discounts, self._kept(), records=records)

    def _kept(self) -> Bool[ndarray, " nodes"] | None:
        if max(self.config.prune) == 0:
            return None
        counts = self.counts
        kept = counts.new_array(counts.words.size, np.bool_)
        kept[:] = True
        for order in range(2, counts.order + 1):
            level, min_count = counts.level(order), self.config.min_count(order)
            if min_count > 1:
                for part, own in zip(parts_released(kept[level]), parts_released(counts.counts[level]), strict=True):
                    np.greater_equal(own, min_count, out=part)
        kept[begin_nodes(counts)] = True
        return kept
