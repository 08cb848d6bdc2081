"""The probabilities of contexts, by which entropy pruning weighs n-grams.

The chain rule gives P(h) = P(h1) P(h2|h1) ..., from unigrams up. That is Stolcke's method, and right if lower orders
are based on frequencies. Those of Kneser-Ney are not: its unigrams count the words that precede a word, so "Francisco"
is rare. There, relative frequencies in the training text do much better: Chelba, Brants, Neveitt and Xu, Study on
interaction between entropy pruning and Kneser-Ney smoothing (2010). A model has no counts, but they can be recovered
from the backoffs of one that was discounted and not yet pruned.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.base.threads import run, run_all
from chainrule.ngram.editing.pruning_kernels import add_to_suffixes, chain, count_occurrences, recover_counts
from chainrule.ngram.trie.node_ranges import parts_of
from chainrule.ngram.trie.records import ROOT, narrowest
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.trie.table import Table

_TYPICAL_DISCOUNT = 0.8  # only to compare the contexts after <s>, of all orders, with the others


def by_chain_rule(table: Table, suffixes: Int[ndarray, " nodes"]) -> Float32[ndarray, " inner"]:
    """log P(h) of every context, by the model itself. <s> is as likely as </s>, since every document has both."""
    return _log_histories(table, np.empty(0, np.int32), 0.0)


def by_frequency(table: Table, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " inner"]:
    """log P(h) of every context, from its frequency in a text, which should be the training text.

    stream: documents, each ended by </s>. For a context that it lacks, the chain rule extends that of its prefix.
    """
    return _log_histories(table, occurrences(table, stream, table.order - 1), math.log(max(stream.size, 1)))


def by_discounts(table: Table, suffixes: Int[ndarray, " nodes"]) -> Float32[ndarray, " inner"]:
    """log P(h) of every context, from its count, recovered from the discounts.

    Absolute discounting has gamma(h) = D N(h) / c(h), where N(h) is the number of types seen after h. So
    c(h) = D N(h) / gamma(h) where the n-grams after h have raw counts: at the highest order and after <s>. The count of
    any other context is the sum of its extensions to the left; the formula would make it too low. Where n-grams were
    already pruned, counts are too low.
    """
    counts = np.zeros(table.log_backoffs.size)
    for order in range(table.order - 1, 0, -1):
        level, above = table.level(order), table.level(order + 1)
        if order < table.order - 1:
            run(add_to_suffixes, above.start, above.stop, suffixes, counts)
        fixed = table.begin, table.log_backoffs, _TYPICAL_DISCOUNT, counts
        run_all(recover_counts, [(start, stop, *fixed) for start, stop in parts_of(level)])
    if table.order > 1:
        counts[1 + BEGIN] = counts[1 + END]
        counts /= counts[table.level(1)].sum()
    counts[ROOT] = 1
    return np.log(counts).astype(np.float32)


def occurrences(table: Table, stream: Int32[ndarray, " tokens"], order: int) -> Int[ndarray, " nodes"]:
    """How often each n-gram of a table occurs in a stream, by node, up to an order.

    Raises SettingError where an id is outside the vocabulary.
    """
    check_tokens(stream, table.vocabulary_size)
    counts = np.zeros(table.words.size, narrowest(stream.size))
    stream = stream.astype(np.int32, casting="same_kind", copy=False)
    inner = table.log_backoffs.size
    run(count_occurrences, table.words, table.begin, table.slots, inner, order, stream, counts)
    counts[ROOT] = 0
    return counts


def _log_histories(table: Table, counts: Int[ndarray, " nodes"], log_total: float) -> Float32[ndarray, " inner"]:
    log_histories = np.zeros(table.log_backoffs.size, np.float32)
    for order in range(1, table.order):
        contexts = table.level(order - 1)
        fixed = table.begin, table.log_probs, counts, log_total, log_histories
        run_all(chain, [(start, stop, *fixed) for start, stop in parts_of(contexts)])
        if order == 1:
            log_histories[1 + BEGIN] = log_histories[1 + END]
    return log_histories
