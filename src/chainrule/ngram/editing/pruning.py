"""Prunes n-gram tables: by relative entropy, to a smaller vocabulary, or to the n-grams of a text.

By entropy (Stolcke, Entropy-based pruning of backoff language models, 1998): the score of an n-gram hw is D(p || p'),
where p' is the model without hw, which then backs off to its suffix; exp(D) - 1 is the relative rise of the perplexity.
The contexts of kept n-grams are kept, too, and backoffs renormalised. All n-grams are scored against the unpruned
model, so their order does not matter.

The score weighs an n-gram by the probability of its context. The chain rule gives P(h) = P(h1) P(h2|h1) ..., from
unigrams up. That is Stolcke's method, and right if lower orders are based on frequencies. Those of Kneser-Ney are not:
its unigrams count the words that precede a word, so "Francisco" is rare. There, relative frequencies in the training
text do much better: Chelba, Brants, Neveitt and Xu, Study on interaction between entropy pruning and Kneser-Ney
smoothing (2010). A model has no counts, but they can be recovered from the backoffs of one that was discounted and not
yet pruned.

To a text: its n-grams keep their probabilities and backoffs. That text gets the same scores as before. Other texts do
not, and the distributions no longer sum to one: like KenLM's `filter`, this is for scoring texts that are known in
advance.

To a vocabulary: the probability of removed words goes to <unk>,

    P'(w | h) = P(w | h)                                  for words that remain
    P'(<unk> | h) = P(<unk> | h) + sum of P(v | h)        over the removed words v

after every context h of remaining words. For a text in which the removed words are replaced by <unk>, this is exactly
the old model, as long as none of them is in the context. An n-gram with a removed word in its context is dropped; those
that end in removed words are merged into (h, <unk>). So backoffs do not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.base.progress import Progress, silent
from chainrule.base.threads import run, run_all
from chainrule.errors import SettingError
from chainrule.ngram.editing.editing_kernels import (
    add_to_suffixes,
    chain,
    count_occurrences,
    raise_contexts,
    recover_counts,
    relative_entropies,
    renormalise,
    unknown_shares,
)
from chainrule.ngram.trie.assembly import Trie, check_trie, with_suffixes
from chainrule.ngram.trie.table import ROOT, Table, narrowest, pack_records, parts_of, table_from_records
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float32, Float64, Int, Int32
    from numpy import ndarray

    # A function from a table and the suffixes of its n-grams to log P(h) of every context, by node.
    Histories = Callable[[Table, Int[ndarray, " nodes"]], Float32[ndarray, " inner"]]

TASK = "pruning"


@dataclass(frozen=True)
class ScoredTable:
    """A table with the scores of its n-grams.

    scores: relative entropies in nats, raised for a context to the highest score of the n-grams after it; infinite for
    unigrams, which are never pruned.
    """

    table: Table
    suffixes: Int[ndarray, " nodes"]
    scores: Float32[ndarray, " nodes"]

    def above(self, threshold: float, progress: Progress = silent) -> Table:
        """Return the table without n-grams that would raise the perplexity by less than the threshold.

        Raises SettingError.
        """
        check_threshold(threshold)
        return prune(self.table, self.suffixes, self.scores >= np.log1p(threshold), progress)

    def best(self, ngrams: int, progress: Progress = silent) -> Table:
        """Return the table with the `ngrams` highest scores, over all orders; ties go to the first.

        Raises SettingError where there are fewer n-grams, or more unigrams.
        """
        check_ngrams(ngrams, self.table)
        rank = self.scores.size - (1 + ngrams)  # of the lowest score that is kept; the root is not counted
        limit = np.partition(self.scores, rank)[rank]
        kept = self.scores > limit
        # Contexts come before the n-grams after them, and score at least as high.
        kept[np.flatnonzero(self.scores == limit)[: 1 + ngrams - np.count_nonzero(kept)]] = True
        return prune(self.table, self.suffixes, kept, progress)


def check_threshold(threshold: float) -> None:
    """Raise SettingError where the threshold is not a number from 0 up."""
    if not 0 <= threshold < np.inf:
        raise SettingError(
            f"the threshold is {threshold}; expected a number of at least 0, such as 1e-8: the relative rise of "
            "the perplexity that an n-gram must cause to be kept"
        )


def check_ngrams(ngrams: int, table: Table) -> None:
    """Raise SettingError where a table cannot be pruned to this number of n-grams."""
    available = sum(table.level_sizes)
    if not table.vocabulary_size <= ngrams <= available:
        raise SettingError(
            f"cannot prune to {ngrams:,} n-grams: the model has {available:,}, and its {table.vocabulary_size:,} "
            "unigrams are never pruned"
        )


def score_ngrams(table: Table, histories: Histories, progress: Progress = silent) -> ScoredTable:
    """Score every n-gram by its relative entropy.

    histories: a function that gives the probabilities of contexts. Raises ModelFormatError where the table is damaged.
    """
    progress(TASK, 0, None)
    table, suffixes = with_suffixes(table)
    log_histories = histories(table, suffixes)
    scores = np.empty(table.words.size, np.float32)
    fixed = table.begin, suffixes, table.log_probs, table.log_backoffs, log_histories
    contexts = slice(1, table.begin.size - 1)
    calls = [(start, stop, *fixed, scores) for start, stop in parts_of(contexts)]
    run_all(relative_entropies, calls, on_done=lambda done: progress(TASK, done, len(calls)))
    scores[: table.level(1).stop] = np.inf
    for order in range(table.order - 1, 1, -1):
        run_all(raise_contexts, [(start, stop, table.begin, scores) for start, stop in parts_of(table.level(order))])
    return ScoredTable(table, suffixes, scores)


def prune(
    table: Table, suffixes: Int[ndarray, " nodes"], kept: Bool[ndarray, " nodes"], progress: Progress = silent
) -> Table:
    """Return the table of the kept n-grams with their old probabilities, and backoffs for which distributions sum to
    one.

    kept: must include all unigrams and the contexts of all kept n-grams.
    """
    log_probs, log_backoffs = table.log_probs.copy(), table.log_backoffs.copy()
    fixed = table.begin, suffixes, kept, table.log_probs, table.log_backoffs, log_probs, log_backoffs
    for order in range(1, table.order):
        progress(TASK, order, table.order)
        run_all(renormalise, [(start, stop, *fixed) for start, stop in parts_of(table.level(order))])
    return select_ngrams(table, kept, log_backoffs)


def select_ngrams(table: Table, kept: Bool[ndarray, " nodes"], log_backoffs: Float32[ndarray, " inner"]) -> Table:
    """Return the table of the kept n-grams, with these backoffs, up to the highest order that is left."""
    sizes = [int(np.count_nonzero(kept[table.level(order)])) for order in range(1, table.order + 1)]
    new_nodes = np.cumsum(kept, dtype=table.begin.dtype) - kept  # a kept node's new number
    new_nodes = np.append(new_nodes, new_nodes.dtype.type(1 + sum(sizes)))
    order = max(n for n, size in enumerate(sizes, 1) if size)
    contexts = np.flatnonzero(kept[: 1 + sum(table.level_sizes[: order - 1])])
    begin = np.append(new_nodes[table.begin[contexts]], new_nodes[-1:])
    records = pack_records(table.words[kept], table.log_probs[kept], begin, log_backoffs[contexts])
    return run(table_from_records, tuple(sizes[:order]), records, _suffixes_of_kept(table, kept, new_nodes))


def _suffixes_of_kept(
    table: Table, kept: Bool[ndarray, " nodes"], new_nodes: Int[ndarray, " nodes+1"]
) -> Int[ndarray, " kept"] | None:
    """Return the suffixes of the kept n-grams in new numbers; None if the table has no suffixes, or one is pruned."""
    suffixes = table.suffixes[kept] if table.suffixes.size else table.suffixes
    # the table may come from a damaged file
    are_nodes = suffixes.size > 0 and suffixes.min() >= 0 and suffixes.max() < kept.size
    return new_nodes[suffixes] if are_nodes and kept[suffixes].all() else None


_TYPICAL_DISCOUNT = 0.8  # only to compare the contexts after <s>, of all orders, with the others


def by_chain_rule(table: Table, suffixes: Int[ndarray, " nodes"]) -> Float32[ndarray, " inner"]:
    """Return log P(h) of every context, by the model itself. <s> is as likely as </s>, since every document has
    both.
    """
    return _log_histories(table, np.empty(0, np.int32), 0.0)


def by_frequency(table: Table, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " inner"]:
    """Return log P(h) of every context, from its frequency in a text, which should be the training text.

    stream: documents, each ended by </s>. For a context that it lacks, the chain rule extends that of its prefix.
    """
    return _log_histories(table, occurrences(table, stream, table.order - 1), math.log(max(stream.size, 1)))


def by_discounts(table: Table, suffixes: Int[ndarray, " nodes"]) -> Float32[ndarray, " inner"]:
    """Return log P(h) of every context, from its count, recovered from the discounts.

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
    """Return how often each n-gram of a table occurs in a stream, by node, up to an order.

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


def to_text(table: Table, stream: Int32[ndarray, " tokens"]) -> Table:
    """Return the table of all unigrams and of the n-grams that occur in a stream of documents.

    Raises SettingError where an id is outside the vocabulary, ModelFormatError where the table is damaged.
    """
    check_trie(table)
    kept = occurrences(table, stream, table.order) > 0
    kept[: table.level(1).stop] = True
    return select_ngrams(table, kept, table.log_backoffs)


PRUNING_TO_VOCABULARY = "pruning to a vocabulary"


def to_words(table: Table, remaining: Bool[ndarray, " vocab"], progress: Progress) -> Table:
    """Return the table over the remaining words, whose ids are renumbered in order.

    remaining: by word. Raises SettingError where a marker is removed, ModelFormatError where the table is damaged.
    """
    if not remaining[[UNKNOWN, BEGIN, END]].all():
        raise SettingError("<unk>, <s> and </s> belong to every vocabulary and cannot be removed")
    progress(PRUNING_TO_VOCABULARY, 0, table.order)
    table, suffixes = with_suffixes(table)
    new_ids = np.cumsum(remaining, dtype=np.int32) - 1
    kept, shares, gains = _kept_and_shares(table, suffixes, remaining)
    unigrams = 1 + np.flatnonzero(remaining)
    log_probs = table.log_probs[unigrams]
    log_probs[UNKNOWN] = _log(shares[:1])[0]
    backoffs = table.log_backoffs[unigrams] if table.order > 1 else np.zeros(unigrams.size, np.float32)
    trie = Trie(log_probs, backoffs, node_limit=2 * table.words.size)
    moved = np.zeros(table.words.size, trie.index)  # the new nodes of kept ones
    moved[unigrams] = 1 + np.arange(unigrams.size)
    for order in range(2, table.order + 1):
        progress(PRUNING_TO_VOCABULARY, order - 1, table.order)
        contexts, level = table.level(order - 1), table.level(order)
        children = np.diff(table.begin[contexts.start : contexts.stop + 1])
        parents = np.repeat(np.arange(contexts.start, contexts.stop), children)
        nodes = level.start + np.flatnonzero(kept[level] & (table.words[level] != UNKNOWN))
        parents = parents[nodes - level.start]
        gaining = contexts.start + np.flatnonzero(gains[contexts] & kept[contexts])
        log_backoffs = np.zeros(0, np.float32)
        if order < table.order:
            unknown = unknown_nodes(table, gaining)
            unknown_backoffs = np.where(unknown >= 0, table.log_backoffs[unknown], np.float32(0))
            log_backoffs = np.concatenate([table.log_backoffs[nodes], unknown_backoffs])
        first = trie.words.size
        source_indices = trie.add_level(
            np.concatenate([moved[parents], moved[gaining]]),
            np.concatenate([new_ids[table.words[nodes]], np.full(gaining.size, UNKNOWN, np.int32)]),
            np.concatenate([table.log_probs[nodes], _log(shares[gaining])]),
            log_backoffs,
        )
        if order < table.order:
            new = np.arange(first, first + nodes.size + gaining.size, dtype=moved.dtype)
            new_nodes = np.empty_like(new)
            new_nodes[slice(None) if source_indices is None else source_indices] = new
            moved[nodes] = new_nodes[: nodes.size]
            moved[unknown[unknown >= 0]] = new_nodes[nodes.size :][unknown >= 0]
    return trie.table()


def unknown_nodes(table: Table, contexts: Int[ndarray, " contexts"]) -> Int[ndarray, " contexts"]:
    """Return the node of <unk> after each context, the first of its children; -1 if there is none."""
    first = table.begin[contexts]
    is_unknown = (first < table.begin[contexts + 1]) & (table.words[np.minimum(first, table.words.size - 1)] == UNKNOWN)
    return np.where(is_unknown, first, -1)


def _kept_and_shares(
    table: Table, suffixes: Int[ndarray, " nodes"], remaining: Bool[ndarray, " vocab"]
) -> tuple[Bool[ndarray, " nodes"], Float64[ndarray, " inner"], Bool[ndarray, " inner"]]:
    """Return, by node, whether all its words remain; by context, P'(<unk> | h), and whether it differs from backing
    off.
    """
    kept = np.ones(table.words.size, np.bool_)
    shares, gains = np.ones(table.log_backoffs.size), np.zeros(table.log_backoffs.size, np.bool_)
    arrays = table.words, table.begin, suffixes, table.log_probs, table.log_backoffs
    run(unknown_shares, *arrays, remaining, kept, shares, gains)
    return kept, shares, gains


def _log(shares: Float64[ndarray, " contexts"]) -> ndarray:
    with np.errstate(divide="ignore"):
        return np.log(shares).astype(np.float32)
