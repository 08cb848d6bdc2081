"""Estimation as KenLM's lmplz does it: like `training.py`, but it can prune unigrams, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.progress import Progress, silent
from chainrule.errors import EstimationError
from chainrule.ngram.estimation.build_table import table_of
from chainrule.ngram.estimation.discounts import FALLBACK
from chainrule.ngram.estimation.kneser_ney import modified_kneser_ney
from chainrule.ngram.training import count_stream
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Set

    from jaxtyping import Bool, Int32
    from numpy import ndarray

    from chainrule.base.memory import MaybeOwned
    from chainrule.ngram.config import NGramConfig
    from chainrule.ngram.counting.counts import Counts
    from chainrule.ngram.trie.table import Table


class NoDiscountsError(EstimationError):
    """The discounts of an order cannot be estimated, and no fallback is given."""


def lmplz_table(
    stream: MaybeOwned[Int32[ndarray, " tokens"]],
    vocabulary: Vocabulary,
    config: NGramConfig,
    progress: Progress = silent,
    *,
    unigram_threshold: int = 0,
    allowed: Set[bytes] | None = None,
    fallback: tuple[float, float, float] | None = None,
    min_words: int = 0,
) -> tuple[Table, Vocabulary]:
    """The table and the vocabulary that lmplz writes; n-grams that contain a pruned word are dropped.

    unigram_threshold: words seen at most this often are pruned. allowed: if given, all other words are pruned.
    fallback: the discounts of orders for which none can be estimated. min_words: P(<unk>) is that of a vocabulary of at
    least this size. As in lmplz, the log-probability of <s> is 0, although <s> is never predicted. Raises
    NoDiscountsError where discounts cannot be estimated and there is no fallback.
    """
    counts = count_stream(stream, len(vocabulary), config, progress)
    dropped_words = counts.counts[counts.level(1)] <= unigram_threshold if unigram_threshold else None
    if allowed is not None:
        outside = np.array([token not in allowed for token in vocabulary.tokens()])
        dropped_words = outside if dropped_words is None else outside | dropped_words
    if dropped_words is not None:
        dropped_words[[UNKNOWN, BEGIN, END]] = False
    dropped = None if dropped_words is None else _with_a_word(counts, dropped_words)
    words = len(vocabulary) - 1 if dropped_words is None else int(np.count_nonzero(~dropped_words)) - 1
    estimates = modified_kneser_ney(
        counts, config, progress, fallback=fallback or FALLBACK, dropped=dropped, words=max(words, min_words)
    )
    problem = next((discounts.problem for discounts in estimates.discounts if discounts.problem), None)
    if problem is not None and fallback is None:
        raise NoDiscountsError(problem)
    if dropped is not None:
        kept = ~dropped if estimates.kept is None else ~dropped & estimates.kept
        estimates = replace(estimates, kept=kept)
    table = table_of(counts, estimates)
    nodes = table.nodes  # owned by this table alone
    nodes["log_prob"][1 + BEGIN] = 0
    if dropped_words is not None:
        new_ids = np.cumsum(~dropped_words, dtype=np.int32) - 1
        nodes["word"][1:] = new_ids[nodes["word"][1:]]
        tokens = vocabulary.tokens()
        vocabulary = Vocabulary([tokens[word] for word in np.flatnonzero(~dropped_words).tolist() if word > END])
    return replace(table, nodes=nodes), vocabulary


def _with_a_word(counts: Counts, in_set: Bool[ndarray, " vocab"]) -> Bool[ndarray, " nodes"]:
    """Which n-grams contain a word of the set."""
    contains = np.zeros(counts.words.size, np.bool_)
    contains[counts.level(1)] = in_set
    for order in range(2, counts.order + 1):
        level, contexts = counts.level(order), counts.level(order - 1)
        children = np.diff(counts.begin[contexts.start : contexts.stop + 1])
        contains[level] = in_set[counts.words[level]] | np.repeat(contains[contexts], children)
    return contains
