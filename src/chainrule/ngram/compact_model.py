"""An n-gram model in the compact layout behind the waist.

Its state is that of `NGramModel`: trie nodes, a row for each sequence. `score` finds its way through the packed trie;
where whole distributions are asked for, the contexts of a few rows are spelled out as a small fast table, and the
kernels of the fast layout do the rest.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.choosing_kernels import best_words, draw_words
from chainrule.ngram.compact_building import unpacked
from chainrule.ngram.compact_query_kernels import OPEN, SIZE, advance, open_rows, score_stream, spell_out
from chainrule.ngram.query_kernels import NO_NODE, distributions
from chainrule.ngram.streams import StreamScorer, in_one_stream, run_pieces
from chainrule.ngram.table import NODE, context_type
from chainrule.protocol import (
    BEGIN,
    NAN_FOUND,
    NOTHING_TO_DRAW,
    UNKNOWN,
    check_draw,
    check_log_probs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Float64, Int, Int32, Int64, Shaped
    from numpy import ndarray

    from chainrule.ngram.compact import CompactTable
    from chainrule.ngram.table import Table

    Contexts = Int64[ndarray, "rows order-1"]
    Trie = tuple[
        Int32[ndarray, " nodes"], Float32[ndarray, " nodes"], Int32[ndarray, " inner+1"], Float32[ndarray, " inner"]
    ]

_ITSELF = -1  # instead of a token that is scored everywhere
_ROWS = 64  # spelled out at once


class CompactNGramModel(StreamScorer):
    """P(w | the last N-1 tokens), from a compact table; `</s>` starts the next document."""

    begins = 1  # how many <s> a document begins with

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
        """The fast layout of the same numbers, made anew each time: for writing ARPA files, and for `convert`."""
        return unpacked(self.compact)

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        scores, _ = self._scored(stream, UNKNOWN)
        return [scores[span] for span in spans]

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """As `StreamScorer.score_stream_with_lengths`; n-grams that were put in as suffixes of others count as well."""
        return self._scored(stream, _ITSELF)

    def _scored(
        self, stream: Int32[ndarray, " tokens"], token: int
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        stream = self._known(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        run_pieces(score_stream, (*self.compact.parts, self.compact.layout, token, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def next_log_probs(self, state: Contexts) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        for part, trie, contexts in self._spelled_out(state):
            distributions(*trie, self.vocabulary_size, contexts, rows[part])
        check_log_probs(rows)
        return rows

    def top(self, state: Contexts, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """As `LanguageModel.top`, but without building the rows."""
        if k < 1:
            raise SettingError(f"k is {k}; expected 1 or more")
        shape = len(state), min(k, self.vocabulary_size)
        log_probs, tokens = np.empty(shape, np.float32), np.empty(shape, np.int32)
        for part, trie, contexts in self._spelled_out(state):
            ranked = self._ranked
            if not best_words(*trie, self.vocabulary_size, ranked, contexts, log_probs[part], tokens[part]):
                raise ModelFormatError(NAN_FOUND)
        check_log_probs(log_probs)
        return log_probs, tokens

    def draw(
        self, state: Contexts, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """As `LanguageModel.draw`, but without building the rows; words are in the order of the contexts' lengths."""
        forbidden = check_draw(len(state), uniforms, banned, self.vocabulary_size)
        log_probs, tokens = np.empty(len(state), np.float32), np.empty(len(state), np.int32)
        for part, trie, contexts in self._spelled_out(state):
            drawn = contexts, uniforms[part], forbidden, log_probs[part], tokens[part]
            if not draw_words(*trie, self.vocabulary_size, self._cumulative, *drawn):
                raise SettingError(NOTHING_TO_DRAW)
        check_log_probs(log_probs)
        return log_probs, tokens

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        tokens = self._known_for(state, tokens)
        return advance(self.compact.bits, self.compact.layout, self.vocabulary_size, state, tokens)

    @property
    def _begun(self) -> Int64[ndarray, " order-1"]:
        return np.array([1 + BEGIN, *[NO_NODE] * (self.order - 2)][: self.order - 1], np.int64)

    def _spelled_out(self, state: Contexts) -> Iterator[tuple[slice, Trie, Contexts]]:
        """Parts of the rows, each with the arrays of a fast trie that has their contexts, and their contexts in it."""
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
            contexts = np.zeros(rows.size + 1, context_type(np.int32))
            contexts["begin"][:1] = self._unigram_nodes.size
            trie = nodes["word"], nodes["log_prob"], contexts["begin"], contexts["log_backoff"][:-1]
            spell_out(*self.compact.parts, opened, scales, *trie)
            own = np.where(rows == NO_NODE, NO_NODE, np.arange(rows.size).reshape(rows.shape))
            yield part, trie, own[row_of.reshape(-1)]

    @cached_property
    def _unigram_nodes(self) -> Shaped[ndarray, " vocab+1"]:
        """The root and the unigrams as the fast table has them."""
        nodes = np.zeros(1 + self.vocabulary_size, NODE)
        nodes["word"][1:], nodes["log_prob"][1:] = np.arange(self.vocabulary_size), self.compact.unigrams
        return nodes

    @cached_property
    def _ranked(self) -> Int32[ndarray, " vocab"]:
        """All words, the likeliest unigrams first, equal ones by lower id."""
        return np.argsort(-self.compact.unigrams, kind="stable").astype(np.int32)

    @cached_property
    def _cumulative(self) -> Float64[ndarray, " vocab+1"]:
        """What the unigrams below each word have together."""
        return np.concatenate([[0.0], np.cumsum(np.exp(self.compact.unigrams, dtype=np.float64))])
