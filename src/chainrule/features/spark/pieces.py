"""Shards of an n-gram model, put together from n-grams that were estimated apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.ngram.trie.table import NODE, Records, Table, context_type, narrowest, table_from_records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int, Int32
    from numpy import ndarray


class EstimatedLevel(NamedTuple):
    """The n-grams of an order that begin with a range of words. log_probs, log_backoffs: nats."""

    children: Int[ndarray, " contexts"]  # how many follow each context
    log_backoffs: Float32[ndarray, " contexts"]
    words: Int32[ndarray, " ngrams"]
    log_probs: Float32[ndarray, " ngrams"]


class Piece(NamedTuple):
    """The n-grams that begin with the words from `first` on; the first level has one context for each word."""

    first: int
    levels: Sequence[EstimatedLevel]  # from bigrams on


def shard_of_pieces(
    pieces: Sequence[Piece], log_probs: Float32[ndarray, " V"], log_backoffs: Float32[ndarray, " V"]
) -> Table:
    """Return the table of all unigrams, and of the longer n-grams of some `Piece`s, which are in order; as `shard_of`
    cuts it.

    log_probs, log_backoffs: those of all unigrams, in nats. There is at least one piece.
    """
    unigrams = log_probs.size
    orders = range(len(pieces[0].levels))
    sizes = (unigrams, *(sum(piece.levels[n].words.size for piece in pieces) for n in orders))
    nodes = np.empty(1 + sum(sizes), NODE)
    contexts = np.zeros(2 + sum(sizes[:-1]), context_type(narrowest(nodes.size)))
    nodes["word"][: 1 + unigrams] = np.arange(-1, unigrams).clip(0)
    nodes["log_prob"][: 1 + unigrams] = np.concatenate([[0], log_probs])
    contexts["log_backoff"][1 : 1 + unigrams] = log_backoffs
    children = np.zeros(unigrams, np.int64)
    for piece in pieces:
        following = piece.levels[0].children
        children[piece.first : piece.first + following.size] = following
    contexts["begin"][1 : 1 + unigrams] = 1 + unigrams + np.cumsum(children) - children
    context = node = 1 + unigrams
    for n in orders:
        for piece in pieces:
            level = piece.levels[n]
            if n > 0:  # the contexts of bigrams are unigrams
                inner = slice(context, context + level.children.size)
                contexts["begin"][inner] = node + np.cumsum(level.children, dtype=np.int64) - level.children
                contexts["log_backoff"][inner] = level.log_backoffs
                context = inner.stop
            own = slice(node, node + level.words.size)
            nodes["word"][own], nodes["log_prob"][own] = level.words, level.log_probs
            node = own.stop
    contexts["begin"][0], contexts["begin"][-1] = 1, nodes.size
    return table_from_records(sizes, Records(nodes, contexts), None)
