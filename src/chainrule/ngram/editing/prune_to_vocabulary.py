"""Prunes a table to a smaller vocabulary; the probability of removed words goes to <unk>.

    P'(w | h) = P(w | h)                                  for words that remain
    P'(<unk> | h) = P(<unk> | h) + sum of P(v | h)        over the removed words v

after every context h of remaining words. For a text in which the removed words are replaced by <unk>, this is exactly
the old model, as long as none of them is in the context. An n-gram with a removed word in its context is dropped; those
that end in removed words are merged into (h, <unk>). So backoffs do not change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.threads import run
from chainrule.errors import SettingError
from chainrule.ngram.editing.pruning_kernels import unknown_shares
from chainrule.ngram.trie.assembly import Trie
from chainrule.ngram.trie.suffixes import with_suffixes
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int
    from numpy import ndarray

    from chainrule.base.progress import Progress
    from chainrule.ngram.trie.table import Table

PRUNING_TO_VOCABULARY = "pruning to a vocabulary"


def to_words(table: Table, remaining: Bool[ndarray, " vocab"], progress: Progress) -> Table:
    """The table over the remaining words, whose ids are renumbered in order.

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
    """The node of <unk> after each context, the first of its children; -1 if there is none."""
    first = table.begin[contexts]
    is_unknown = (first < table.begin[contexts + 1]) & (table.words[np.minimum(first, table.words.size - 1)] == UNKNOWN)
    return np.where(is_unknown, first, -1)


def _kept_and_shares(
    table: Table, suffixes: Int[ndarray, " nodes"], remaining: Bool[ndarray, " vocab"]
) -> tuple[Bool[ndarray, " nodes"], Float64[ndarray, " inner"], Bool[ndarray, " inner"]]:
    """By node, whether all its words remain; by context, P'(<unk> | h), and whether it differs from backing off."""
    kept = np.ones(table.words.size, np.bool_)
    shares, gains = np.ones(table.log_backoffs.size), np.zeros(table.log_backoffs.size, np.bool_)
    arrays = table.words, table.begin, suffixes, table.log_probs, table.log_backoffs
    run(unknown_shares, *arrays, remaining, kept, shares, gains)
    return kept, shares, gains


def _log(shares: Float64[ndarray, " contexts"]) -> ndarray:
    with np.errstate(divide="ignore"):
        return np.log(shares).astype(np.float32)
