"""A table over fewer words: all that the others had goes to <unk>.

    P'(w | h) = P(w | h)                                  for the words that stay
    P'(<unk> | h) = P(<unk> | h) + sum of P(v | h)        over those that go

after every context h of words that stay. This is the old model exactly, of a text in which the words that go are
written <unk>, as long as none of them stands in the context. An n-gram with such a word in its context goes; one that
ends in it becomes, with its neighbours, (h, <unk>). So back-off weights stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.jit import run
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

TASK = "pruning to a vocabulary"


def to_words(table: Table, staying: Bool[ndarray, " vocab"], progress: Progress) -> Table:
    """The table over the words that stay, numbered anew in their order.

    Raises SettingError where a marker goes, ModelFormatError where the table is damaged.
    """
    if not staying[[UNKNOWN, BEGIN, END]].all():
        raise SettingError("<unk>, <s> and </s> belong to every vocabulary")
    progress(TASK, 0, table.order)
    table, suffixes = with_suffixes(table)
    numbers = np.cumsum(staying, dtype=np.int32) - 1
    kept, shares, gains = _kept_and_shares(table, suffixes, staying)
    unigrams = 1 + np.flatnonzero(staying)
    log_probs = table.log_probs[unigrams]
    log_probs[UNKNOWN] = _log(shares[:1])[0]
    backoffs = table.log_backoffs[unigrams] if table.order > 1 else np.zeros(unigrams.size, np.float32)
    trie = Trie(log_probs, backoffs, node_limit=2 * table.words.size)
    moved = np.zeros(table.words.size, trie.index)  # the new nodes of what stays
    moved[unigrams] = 1 + np.arange(unigrams.size)
    for order in range(2, table.order + 1):
        progress(TASK, order - 1, table.order)
        contexts, level = table.level(order - 1), table.level(order)
        children = np.diff(table.begin[contexts.start : contexts.stop + 1])
        parents = np.repeat(np.arange(contexts.start, contexts.stop), children)
        nodes = level.start + np.flatnonzero(kept[level] & (table.words[level] != UNKNOWN))
        parents = parents[nodes - level.start]
        gaining = contexts.start + np.flatnonzero(gains[contexts] & kept[contexts])
        log_backoffs = np.zeros(0, np.float32)
        if order < table.order:
            found = unknown_nodes(table, gaining)
            own = np.where(found >= 0, table.log_backoffs[found], np.float32(0))
            log_backoffs = np.concatenate([table.log_backoffs[nodes], own])
        first = trie.words.size
        places = trie.add_level(
            np.concatenate([moved[parents], moved[gaining]]),
            np.concatenate([numbers[table.words[nodes]], np.full(gaining.size, UNKNOWN, np.int32)]),
            np.concatenate([table.log_probs[nodes], _log(shares[gaining])]),
            log_backoffs,
        )
        if order < table.order:
            new = np.arange(first, first + nodes.size + gaining.size, dtype=moved.dtype)
            where = np.empty_like(new)
            where[slice(None) if places is None else places] = new
            moved[nodes] = where[: nodes.size]
            moved[found[found >= 0]] = where[nodes.size :][found >= 0]
    return trie.table()


def unknown_nodes(table: Table, contexts: Int[ndarray, " contexts"]) -> Int[ndarray, " contexts"]:
    """The node of <unk> after each context, which comes first of its children; -1 where there is none."""
    first = table.begin[contexts]
    is_there = (first < table.begin[contexts + 1]) & (table.words[np.minimum(first, table.words.size - 1)] == UNKNOWN)
    return np.where(is_there, first, -1)


def _kept_and_shares(
    table: Table, suffixes: Int[ndarray, " nodes"], staying: Bool[ndarray, " vocab"]
) -> tuple[Bool[ndarray, " nodes"], Float64[ndarray, " inner"], Bool[ndarray, " inner"]]:
    """By node: whether all of its words stay. By context: P'(<unk> | h), and whether backing off does not give it."""
    kept = np.ones(table.words.size, np.bool_)
    shares, gains = np.ones(table.log_backoffs.size), np.zeros(table.log_backoffs.size, np.bool_)
    arrays = table.words, table.begin, suffixes, table.log_probs, table.log_backoffs
    run(unknown_shares, *arrays, staying, kept, shares, gains)
    return kept, shares, gains


def _log(shares: Float64[ndarray, " contexts"]) -> ndarray:
    with np.errstate(divide="ignore"):
        return np.log(shares).astype(np.float32)
