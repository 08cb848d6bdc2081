"""Counts to probabilities: the passes over the levels of the trie that all estimators are made of.

An estimator says what it takes from counts, or how much a context's counts weigh against the lower order; a pass does
the rest, the unigrams first, each order from the one below. `estimators.py` names them all.

Sources: Chen and Goodman, An empirical study of smoothing techniques for language modeling (1998), sections 2 and 3;
Heafield et al., Scalable modified Kneser-Ney language model estimation (ACL 2013), section 3, for the conventions at
sentence borders and of pruning.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.base.jit import map_in_order, run_all
from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError
from chainrule.ngram.counting.counts import begin_nodes
from chainrule.ngram.estimation.estimates import Discounts, Estimates
from chainrule.ngram.estimation.interpolation_kernels import interpolate
from chainrule.ngram.estimation.pass_kernels import back_off, relative, sum_children, weigh
from chainrule.ngram.trie.records import ROOT
from chainrule.protocol import BEGIN, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jaxtyping import Bool, Float64, Int, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts

CHUNKS = 64
TASK = "smoothing"


class Adjusted(Protocol):
    """The counts of an order's n-grams that discounts are taken from."""

    def __call__(self, order: int, room: Int[ndarray, " ngrams"] | None = None, /) -> Int[ndarray, " ngrams"]:
        """room: where they may be written, if they do not lie anywhere yet."""


def raw_counts(counts: Counts, order: int, room: Int[ndarray, " ngrams"] | None = None) -> Int[ndarray, " ngrams"]:
    """The counts as they are."""
    return counts.counts[counts.level(order)]


@dataclass(frozen=True)
class Contexts:
    """Some contexts of one order, with the nodes from `start` on: how often something follows, and how many kinds."""

    order: int  # of the n-grams that they are the contexts of
    start: int
    totals: Int64[ndarray, " contexts"]
    kinds: Int64[ndarray, " contexts"]


def interpolated_by_discounts(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: Adjusted,
    discounts_at: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress = silent,
    *,
    words: int | None = None,
) -> Estimates:
    """p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) + gamma(h) p(w|h'), for all orders.

    gamma(h) holds all that was discounted and pruned after h; what has a negative count in `counts` is pruned at any
    order. discounts_at: of an order and its counts, one value for all counts or three. words: how many share in the
    uniform distribution, if not all but <s>. Raises EstimationError under config.strict_discounts.
    """
    passes = _Passes(counts, config, np.float32)
    if words is not None and config.interpolate_unigrams:
        passes.probs[ROOT] = 1 / words
    for order in passes.orders(progress):
        adjusted = adjusted_at(order, passes.room(order))
        values = passes.checked(discounts_at(order, adjusted)).values
        taken = np.array([0.0, *(values if len(values) == 3 else 3 * values)])
        fixed = counts.begin, counts.suffixes, adjusted, counts.level(order).start, counts.counts, config.least(order)
        run_all(interpolate, [(*piece, *fixed, taken, *passes.outputs) for piece in passes.pieces(order)])
    return passes.estimates()


def backed_off_by_discounts(
    counts: Counts,
    config: NGramConfig,
    adjusted_at: Adjusted,
    discounts_at: Callable[[int, Int[ndarray, " ngrams"]], Discounts],
    progress: Progress = silent,
) -> Estimates:
    """p(w|h) = (a(hw) - D(a(hw))) / sum_v a(hv) where hw was seen, and gamma(h) p(w|h') where it was not.

    gamma(h) makes the whole one. discounts_at: of an order and its counts, values for counts of 1, 2, ..., the last one
    for all that are larger. Raises EstimationError under config.strict_discounts.
    """
    passes = _Passes(counts, config, np.float64)  # what is left of one must not be rounding
    for order in passes.orders(progress):
        adjusted = adjusted_at(order)
        taken = np.array([0.0, *passes.checked(discounts_at(order, adjusted)).values])
        fixed = counts.begin, counts.suffixes, adjusted, counts.level(order).start, counts.counts, config.least(order)
        run_all(back_off, [(*piece, *fixed, taken, *passes.outputs) for piece in passes.pieces(order)])
    return passes.estimates()


def interpolated_by_weights(
    counts: Counts,
    config: NGramConfig,
    weights_of: Callable[[Contexts], Float64[ndarray, " contexts"]],
    progress: Progress = silent,
) -> Estimates:
    """p(w|h) = weight(h) c(hw) / c(h) + (1 - weight(h)) p(w|h'), for all orders; what was pruned goes to p(w|h'), too.

    weights_of: for contexts that something follows; what it says of others does not matter.
    """
    passes = _Passes(counts, config, np.float32)
    for order in passes.orders(progress):
        level, least = counts.level(order), config.least(order)

        def weighed(piece: tuple[int, int], order: int = order, level: slice = level, least: int = least) -> None:
            contexts = _contexts(counts, order, level, *piece)
            weights = np.ascontiguousarray(weights_of(contexts), np.float64)
            fixed = counts.begin, counts.suffixes, counts.counts, least
            weigh(piece[0], piece[1], *fixed, contexts.totals, weights, *passes.outputs)

        for _ in map_in_order(weighed, passes.pieces(order), ahead=CHUNKS):
            pass
    return passes.estimates()


def relative_frequencies(counts: Counts, config: NGramConfig, progress: Progress = silent) -> Estimates:
    """c(hw) / c(h) for all orders, and nothing for what was not seen: no distribution where orders are mixed."""
    passes = _Passes(counts, config, np.float32)
    for order in passes.orders(progress):
        level = counts.level(order)

        def divided(piece: tuple[int, int], order: int = order, level: slice = level) -> None:
            totals = _contexts(counts, order, level, *piece).totals
            relative(piece[0], piece[1], counts.begin, counts.counts, totals, *passes.outputs)

        for _ in map_in_order(divided, passes.pieces(order), ahead=CHUNKS):
            pass
    return passes.estimates()


def uniform_share(counts: Counts, config: NGramConfig) -> float:
    """What each word has where nothing is known: all but <s> share, and <unk> where a closed vocabulary lacks it."""
    return 1 / (counts.level_sizes[0] - 1 - is_without_unknown(counts, config))


def is_without_unknown(counts: Counts, config: NGramConfig) -> bool:
    """Whether <unk> is to have no probability: in a closed vocabulary, where the text has none."""
    return not config.open_vocabulary and counts.counts[1 + UNKNOWN] == 0


def _contexts(counts: Counts, order: int, level: slice, start: int, stop: int) -> Contexts:
    totals, kinds = np.empty(stop - start, np.int64), np.empty(stop - start, np.int64)
    sum_children(start, stop, counts.begin, counts.counts[level], level.start, totals, kinds)
    return Contexts(order, start, totals, kinds)


class _Passes:
    """The arrays that the passes fill in, and what is done before, between and after them."""

    def __init__(self, counts: Counts, config: NGramConfig, precision: type) -> None:
        self.counts, self.config = counts, config
        inner, unigrams = counts.begin.size - 1, counts.level(1)
        if counts.records is None:
            self.log_probs, self.log_backoffs = np.empty(counts.words.size, np.float32), np.empty(inner, np.float32)
        else:
            self.log_probs = counts.records.nodes["log_prob"]
            self.log_backoffs = counts.records.contexts["log_backoff"][:inner]
        # Those that a higher order, or the unigrams, are made of.
        self.probs = np.empty(max(inner, unigrams.stop), precision)
        # The bottom is uniform over all words but <s>, which is never predicted; or <unk> and the unseen, added below.
        self.probs[ROOT] = uniform_share(counts, config) if config.interpolate_unigrams else 0
        self._discounts: list[Discounts] = []

    @property
    def outputs(self) -> tuple[ndarray, ndarray, ndarray]:
        return self.probs, self.log_probs, self.log_backoffs

    def orders(self, progress: Progress) -> Iterator[int]:
        """From 1 on; what the unigrams need after their pass is done here."""
        for order in range(1, self.counts.order + 1):
            progress(TASK, order - 1, self.counts.order)
            yield order
            if order == 1:
                self._finish_unigrams()
        progress(TASK, self.counts.order, self.counts.order)

    def pieces(self, order: int) -> list[tuple[int, int]]:
        """The contexts of an order, cut for threads."""
        contexts = self.counts.level(order - 1)
        edges = np.linspace(contexts.start, contexts.stop, min(CHUNKS, contexts.stop - contexts.start) + 1)
        return list(itertools.pairwise(edges.astype(np.int64).tolist()))

    def room(self, order: int) -> Int[ndarray, " ngrams"] | None:
        """Where an order's counts may lie until `interpolate` writes their n-grams' probabilities over them."""
        counts, level = self.counts.counts, self.counts.level(order)
        is_fitting = counts.itemsize == self.probs.itemsize and level.stop <= self.probs.size
        return self.probs[level].view(counts.dtype) if is_fitting else None

    def checked(self, discounts: Discounts) -> Discounts:
        """Raises EstimationError under config.strict_discounts."""
        if self.config.strict_discounts and discounts.problem:
            raise EstimationError(
                f"{discounts.problem}. Without strict_discounts, {discounts.fallback} would be taken instead"
            )
        self._discounts.append(discounts)
        return discounts

    def estimates(self) -> Estimates:
        self.log_probs[ROOT] = self.log_backoffs[ROOT] = 0  # never asked for
        discounts, records = tuple(self._discounts), self.counts.records
        return Estimates(self.log_probs, self.log_backoffs, discounts, self._kept(), records=records)

    def _finish_unigrams(self) -> None:
        unigrams = self.counts.level(1)
        probs, seen = self.probs[unigrams], self.counts.counts[unigrams] != 0
        if not self.config.interpolate_unigrams:
            unseen = ~seen  # a tokenizer's alphabet or a given list may hold types that the text has not
            unseen[UNKNOWN], unseen[BEGIN] = True, False
            probs[unseen] += np.exp(self.log_backoffs[ROOT]) / np.count_nonzero(unseen)
        probs[BEGIN] = 0
        if is_without_unknown(self.counts, self.config):
            probs[UNKNOWN] = 0
        with np.errstate(divide="ignore"):
            self.log_probs[unigrams] = np.log(probs)

    def _kept(self) -> Bool[ndarray, " nodes"] | None:
        if max(self.config.prune) == 0:
            return None
        counts = self.counts
        kept = np.ones(counts.words.size, np.bool_)
        for order in range(2, counts.order + 1):
            level = counts.level(order)
            if self.config.threshold(order) > 0:
                kept[level] = counts.counts[level] >= self.config.least(order)
        kept[begin_nodes(counts)] = True
        return kept
