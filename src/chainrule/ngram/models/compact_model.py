"""The language model of a compact table.

Its state is that of `NGramModel`: trie nodes, a row for each sequence. Scoring queries the compact trie directly; for
whole distributions, the contexts of a few rows are unpacked into a small fast table for the kernels of the fast layout.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import check_log_probs
from chainrule.ngram.compact.building import unpack_table
from chainrule.ngram.compact.query_kernels import OPEN, SIZE, open_rows, spell_out
from chainrule.ngram.compact.query_kernels import advance as advance_compact
from chainrule.ngram.compact.query_kernels import score_stream as score_compact_stream
from chainrule.ngram.models.stream_scorer import run_pieces
from chainrule.ngram.models.trie_model import TrieModel
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.ngram.trie.records import NODE, context_type
from chainrule.protocol import UNKNOWN, StreamScores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float32, Int, Int32, Shaped
    from numpy import ndarray

    from chainrule.ngram.compact.table import CompactTable
    from chainrule.ngram.models.trie_model import Contexts, Trie
    from chainrule.ngram.trie.table import Table

_ACTUAL_TOKEN = -1  # scores each token of the stream, not one token at all positions
_ROWS = 64  # unpacked at once


class CompactNGramModel(TrieModel):
    """P(w | the last N-1 tokens), from a compact table; `</s>` starts the next document."""

    def __init__(self, compact: CompactTable) -> None:
        self.compact = compact
        self.vocabulary_size = compact.vocabulary_size

    @property
    def order(self) -> int:
        return self.compact.order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on."""
        return self.compact.level_sizes

    @property
    def table(self) -> Table:
        """The same model in the fast layout, unpacked on each access: for ARPA files and `convert`."""
        return unpack_table(self.compact)

    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """As `StreamScorer._score`; of lengths, n-grams that were added as suffixes count as well."""
        of_unknown = self._score_tokens(stream, UNKNOWN)[0] if unknown else np.empty(0, np.float32)
        return StreamScores(*self._score_tokens(stream, _ACTUAL_TOKEN), of_unknown)

    def _score_tokens(
        self, stream: Int32[ndarray, " tokens"], token: int
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        stream = self._checked(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        run_pieces(score_compact_stream, (*self.compact.parts, self.compact.layout, token, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        tokens = self._checked_for(state, tokens)
        return advance_compact(self.compact.bits, self.compact.layout, self.vocabulary_size, state, tokens)

    def _tries(self, state: Contexts) -> Iterator[tuple[slice, Trie, Contexts]]:
        bits, layout = self.compact.bits, self.compact.layout
        for start in range(0, len(state), _ROWS):
            part = slice(start, start + _ROWS)
            rows, row_of = np.unique(state[part], axis=0, return_inverse=True)
            rows = np.ascontiguousarray(rows, np.int64)
            opened = np.empty((self.order + 1, len(rows), OPEN), np.int64)
            scales = np.empty((self.order + 1, len(rows)))
            open_rows(bits, layout, self.vocabulary_size, rows, opened, scales)
            nodes = np.zeros(self._unigram_nodes.size + int(opened[2:, :, SIZE].sum()), NODE)
            nodes[: self._unigram_nodes.size] = self._unigram_nodes
            contexts = np.zeros(max(rows.size, 1) + 1, context_type(np.int32))  # see `Table.columns`
            contexts["begin"][:1] = self._unigram_nodes.size
            trie = nodes["word"], nodes["log_prob"], contexts["begin"], contexts["log_backoff"]
            spell_out(*self.compact.parts, opened, scales, *trie)
            own = np.where(rows == NO_NODE, NO_NODE, np.arange(rows.size).reshape(rows.shape))
            yield part, trie, own[row_of.reshape(-1)]

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.compact.unigrams

    @cached_property
    def _unigram_nodes(self) -> Shaped[ndarray, " vocab+1"]:
        """The root and the unigrams in the fast layout."""
        nodes = np.zeros(1 + self.vocabulary_size, NODE)
        nodes["word"][1:], nodes["log_prob"][1:] = np.arange(self.vocabulary_size), self.compact.unigrams
        return nodes
