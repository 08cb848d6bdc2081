"""The language model of an n-gram table that is cut into shards, which may together be larger than memory.

A shard is a table of its own: all unigrams, and the longer n-grams whose first words are in its range. The n-grams that
a context begins are therefore in one shard, that of the context's first word.

A state holds a number for each context: the shard's above NODE_BITS, the node's in that shard below.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import check_log_probs
from chainrule.ngram.models.stream_scorer import pieces_of
from chainrule.ngram.models.table_models import TrieModel
from chainrule.ngram.trie.query_kernels import NO_NODE, children, find_children
from chainrule.ngram.trie.table import NODE, context_type, narrowest
from chainrule.protocol import BEGIN, END, UNKNOWN, StreamScores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.models.table_models import Contexts, Trie
    from chainrule.ngram.trie.table import Table

NODE_BITS = 40
_NODE = (1 << NODE_BITS) - 1
_ROWS = 64  # whose contexts are gathered at once


class ShardedModel(TrieModel):
    """P(w | the last N-1 tokens), from shards; `</s>` starts the next document."""

    why_no_table = "its n-grams are in shards"

    def __init__(self, shards: Sequence[Table], edges: Sequence[int]) -> None:
        """Store the shards.

        edges: the first words of shard k are edges[k] .. edges[k+1]; they begin with 0 and end with V.
        """
        self.shards, self.edges = list(shards), list(edges)
        self.vocabulary_size = shards[0].vocabulary_size
        words = np.arange(self.vocabulary_size)
        shard_of_word = np.searchsorted(np.array(self.edges[1:]), words, side="right")
        self._unigram_contexts = (shard_of_word << NODE_BITS) + 1 + words

    @property
    def order(self) -> int:
        return self.shards[0].order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on, of all shards together."""
        longer = np.sum([shard.level_sizes[1:] for shard in self.shards], axis=0)
        return (self.vocabulary_size, *np.atleast_1d(longer).astype(int).tolist()[: self.order - 1])

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """Implement `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        new = np.full(state.shape, NO_NODE, np.int64)
        if state.shape[1]:
            new[:, 0] = self._unigram_contexts[tokens]
            for j in range(1, state.shape[1]):
                new[:, j] = self._children_of(state[:, j - 1], tokens)
            new[tokens == END] = self._begin_state
        return new

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        stream = self._checked(stream)
        parts = [self._score_piece(stream[start:stop], unknown=unknown) for start, stop in pieces_of(stream)]
        columns = zip(*parts, strict=True) if parts else ([np.empty(0, kind)] for kind in ("f4", "u1", "f4"))
        scores = StreamScores(*map(np.concatenate, columns))
        check_log_probs(scores.log_probs)
        check_log_probs(scores.unknown_log_probs)
        return scores

    def _score_piece(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """Score whole documents, order by order."""
        after_end = np.concatenate([[True], stream[:-1] == END])
        nodes = self._unigram_contexts[stream]
        found, contexts = [nodes], []
        for n in range(2, self.order + 1):
            context = np.concatenate([[NO_NODE], nodes[:-1]])
            context[after_end] = self._unigram_contexts[BEGIN] if n == 2 else NO_NODE
            nodes = self._children_of(context, stream)
            contexts.append(context)
            found.append(nodes)
        lengths = np.ones(stream.size, np.uint8)
        for n, nodes in enumerate(found[1:], start=2):
            lengths[nodes != NO_NODE] = n
        scores = self._log_probs_at(np.array(found)[lengths - 1, np.arange(stream.size)])
        unknown_scores = np.full(stream.size if unknown else 0, self._unigrams[UNKNOWN], np.float32)
        for n, context in enumerate(contexts, start=2):
            backoffs = self._log_backoffs_at(context)  # 0 where there is no context
            scores += np.where(n > lengths, backoffs, np.float32(0))
            if unknown:
                own = self._children_of(context, np.full(stream.size, UNKNOWN, np.int32))
                unknown_scores = np.where(own == NO_NODE, unknown_scores + backoffs, self._log_probs_at(own))
        return StreamScores(scores, lengths, unknown_scores)

    def _children_of(
        self, contexts: Int64[ndarray, " rows"], tokens: Int32[ndarray, " rows"]
    ) -> Int64[ndarray, " rows"]:
        """Return the n-grams of contexts and tokens, numbered as contexts are, or NO_NODE."""

        def look_up(shard: Table, own: Int64[ndarray, " own"], rows: Int64[ndarray, " own"]) -> Int64[ndarray, " own"]:
            nodes, scratch = np.empty(own.size, np.int64), np.empty((5, own.size + 1), np.int64)
            inner = shard.log_backoffs.size
            find_children(shard.words, shard.begin, shard.slots, inner, own, tokens[rows], scratch, nodes)
            return nodes

        out = np.full(contexts.size, NO_NODE, np.int64)
        for k, rows, nodes in self._by_shard(contexts, look_up):
            out[rows] = np.where(nodes == NO_NODE, NO_NODE, (k << NODE_BITS) + nodes)
        return out

    def _log_probs_at(self, nodes: Int64[ndarray, " rows"]) -> Float32[ndarray, " rows"]:
        out = np.zeros(nodes.size, np.float32)
        for _, rows, values in self._by_shard(nodes, lambda shard, own, rows: shard.log_probs[own]):
            out[rows] = values
        return out

    def _log_backoffs_at(self, contexts: Int64[ndarray, " rows"]) -> Float32[ndarray, " rows"]:
        """Return the log-backoffs at some nodes; 0 for NO_NODE."""
        out = np.zeros(contexts.size, np.float32)
        for _, rows, values in self._by_shard(contexts, lambda shard, own, rows: shard.log_backoffs[own]):
            out[rows] = values
        return out

    def _by_shard(
        self, numbers: Int64[ndarray, " rows"], work: Callable[[Table, ndarray, ndarray], ndarray]
    ) -> Iterator[tuple[int, Int64[ndarray, " own"], ndarray]]:
        """Yield each shard with its rows and the result of `work` on its nodes there."""
        shard_numbers = numbers >> NODE_BITS  # -1 for NO_NODE
        for k, shard in enumerate(self.shards):
            rows = np.flatnonzero(shard_numbers == k)
            if rows.size:
                yield k, rows, work(shard, numbers[rows] & _NODE, rows)

    def _tries(self, state: Contexts) -> Iterator[tuple[slice, Trie, Contexts]]:
        for start in range(0, len(state), _ROWS):
            part = slice(start, start + _ROWS)
            contexts, own = np.unique(state[part], return_inverse=True)
            yield part, *self._gathered(contexts, own.reshape(state[part].shape))

    def _gathered(
        self, contexts: Int64[ndarray, " contexts"], own: Int64[ndarray, "rows order-1"]
    ) -> tuple[Trie, Contexts]:
        """Return a small trie of all unigrams and of what follows the contexts; `own`, which says where they are
        in it.
        """
        ranges = []
        for context in contexts.tolist():
            shard = self.shards[max(context, 0) >> NODE_BITS]
            low, high = (0, 0) if context == NO_NODE else children(shard.words, shard.begin, context & _NODE)
            ranges.append(shard.nodes[low:high])
        nodes = np.concatenate([self._unigram_nodes, *ranges])
        records = np.zeros(max(contexts.size, 1) + 1, context_type(narrowest(nodes.size)))  # see `Table.columns`
        edges = self._unigram_nodes.size + np.concatenate([[0], np.cumsum([part.size for part in ranges])])
        records["begin"][: edges.size], records["log_backoff"][: contexts.size] = edges, self._log_backoffs_at(contexts)
        trie = nodes["word"], nodes["log_prob"], records["begin"], records["log_backoff"]
        return trie, np.where(contexts[own] == NO_NODE, NO_NODE, own)

    @property
    def _begin_state(self) -> Int64[ndarray, " order-1"]:
        return np.array([self._unigram_contexts[BEGIN], *[NO_NODE] * (self.order - 2)][: self.order - 1], np.int64)

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.shards[0].log_probs[self.shards[0].level(1)]

    @cached_property
    def _unigram_nodes(self) -> ndarray:
        """The root and the unigrams."""
        return np.asarray(self.shards[0].nodes[: 1 + self.vocabulary_size], NODE)
