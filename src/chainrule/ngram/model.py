"""An n-gram model behind the waist.

Its state is an array of trie nodes, a row for each sequence, so that a copy of it is a state of its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.choosing_kernels import best_words, draw_words
from chainrule.ngram.query_kernels import NO_NODE, advance, distributions, score_stream
from chainrule.ngram.streams import StreamScorer, in_one_stream, run_pieces
from chainrule.ngram.unknown_kernels import score_token
from chainrule.ngram.walking_kernels import walk_stream
from chainrule.protocol import (
    BEGIN,
    NAN_FOUND,
    NOTHING_TO_DRAW,
    UNKNOWN,
    check_draw,
    check_log_probs,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.table import Table

    Contexts = Int64[ndarray, "rows order-1"]

WALKED_TOKENS = 1 << 11  # of shorter streams, parts to be walked at once would be too short


class NGramModel(StreamScorer):
    """P(w | the last N-1 tokens), from a table; `</s>` starts the next document."""

    begins = 1  # how many <s> a document begins with

    def __init__(self, table: Table) -> None:
        self.table = table
        self.vocabulary_size = table.vocabulary_size

    @property
    def order(self) -> int:
        return self.table.order

    @property
    def level_sizes(self) -> tuple[int, ...]:
        """n-grams by order, from unigrams on."""
        return self.table.level_sizes

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        stream = self._known(stream)
        scores = np.empty(stream.size, np.float32)
        run_pieces(score_token, (*self._arrays(), self.order, UNKNOWN, stream), (scores,))
        check_log_probs(scores)
        return [scores[span] for span in spans]

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """As `StreamScorer.score_stream_with_lengths`."""
        stream = self._known(stream)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        arrays = *self._arrays(), self.table.slots
        if self.table.suffixes.size and stream.size >= WALKED_TOKENS:
            run_pieces(walk_stream, (*arrays, self.table.suffixes, self.order, stream), (scores, lengths))
        else:
            run_pieces(score_stream, (*arrays, self.order, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def next_log_probs(self, state: Contexts) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        rows = np.empty((len(state), self.vocabulary_size), np.float32)
        distributions(*self._arrays(), self.vocabulary_size, state, rows)
        check_log_probs(rows)
        return rows

    def top(self, state: Contexts, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """As `LanguageModel.top`, but without building the rows."""
        if k < 1:
            raise SettingError(f"k is {k}; expected 1 or more")
        shape = len(state), min(k, self.vocabulary_size)
        log_probs, tokens = np.empty(shape, np.float32), np.empty(shape, np.int32)
        if not best_words(*self._arrays(), self.vocabulary_size, self._ranked, state, log_probs, tokens):
            raise ModelFormatError(NAN_FOUND)
        check_log_probs(log_probs)
        return log_probs, tokens

    def draw(
        self, state: Contexts, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """As `LanguageModel.draw`, but without building the rows; words are in the order of the contexts' lengths."""
        forbidden = check_draw(len(state), uniforms, banned, self.vocabulary_size)
        log_probs, tokens = np.empty(len(state), np.float32), np.empty(len(state), np.int32)
        found = draw_words(
            *self._arrays(), self.vocabulary_size, self._cumulative, state, uniforms, forbidden, log_probs, tokens
        )
        if not found:
            raise SettingError(NOTHING_TO_DRAW)
        check_log_probs(log_probs)
        return log_probs, tokens

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        tokens = self._known_for(state, tokens)
        return advance(self.table.words, self.table.begin, self.table.log_backoffs.size, state, tokens)

    @property
    def _begun(self) -> Int64[ndarray, " order-1"]:
        return np.array([1 + BEGIN, *[NO_NODE] * (self.order - 2)][: self.order - 1], np.int64)

    @cached_property
    def _ranked(self) -> Int32[ndarray, " vocab"]:
        """All words, the likeliest unigrams first, equal ones by lower id."""
        return np.argsort(-self._unigrams, kind="stable").astype(np.int32)

    @cached_property
    def _cumulative(self) -> Float64[ndarray, " vocab+1"]:
        """What the unigrams below each word have together."""
        return np.concatenate([[0.0], np.cumsum(np.exp(self._unigrams, dtype=np.float64))])

    @property
    def _unigrams(self) -> Float32[ndarray, " vocab"]:
        return self.table.log_probs[self.table.level(1)]

    def _arrays(self) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        return self.table.words, self.table.log_probs, self.table.begin, self.table.log_backoffs
