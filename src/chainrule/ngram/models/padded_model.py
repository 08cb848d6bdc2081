"""The language model of a table whose documents begin with order - 1 times <s>."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens, check_prefixes, check_tokens
from chainrule.ngram.counting.counts import pad_documents
from chainrule.ngram.models.table_models import NGramModel
from chainrule.protocol import BEGIN, END, StreamScores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Bool, Float32, Float64, Int, Int32
    from numpy import ndarray

    from chainrule.ngram.models.sharded_model import ShardedModel
    from chainrule.ngram.models.table_models import BackoffStep, Contexts
    from chainrule.ngram.trie.table import Table

    Tokens = Int32[ndarray, " tokens"]


class PaddedModel:
    """A model trained on padded documents; pads every query in the same way."""

    end = END
    is_distribution = True
    why_no_table = "its documents begin with several <s>"
    settings: Mapping[str, Any] = MappingProxyType({"begins": "all"})  # as `StreamScorer.settings`

    def __init__(self, base: NGramModel | ShardedModel) -> None:
        """base: the model of padded documents, which does not pad by itself."""
        self.base = base
        self._padding = np.full(max(0, base.order - 2), BEGIN, np.int32)
        self._start = base.start([self._padding])
        self.vocabulary_size, self.order = base.vocabulary_size, base.order
        self.begins = 1 + self._padding.size

    @property
    def table(self) -> Table:
        """The table of a model that is not in shards."""
        assert isinstance(self.base, NGramModel)
        return self.base.table

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `Scorer.score`."""
        return self.base.score(sequences, prefixes=self._padded(sequences, prefixes), end=end)

    def match_lengths(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Int[ndarray, " tokens"]]:
        """As `StreamScorer.match_lengths`."""
        return self.base.match_lengths(sequences, prefixes=self._padded(sequences, prefixes), end=end)

    def score_with_lengths(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Int[ndarray, " tokens"]]]:
        """The results of `score` and `match_lengths`, in one pass."""
        return self.base.score_with_lengths(sequences, prefixes=self._padded(sequences, prefixes), end=end)

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `LanguageModel.unknown_log_probs`."""
        return self.base.unknown_log_probs(sequences, prefixes=self._padded(sequences, prefixes), end=end)

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " tokens"]:
        """As `Scorer.score_stream`."""
        return self.score_stream_with_lengths(stream)[0]

    def score_stream_with_lengths(self, stream: Tokens) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """As `StreamScorer.score_stream_with_lengths`."""
        whole, is_own = self._padded_stream(stream)
        scores, lengths = self.base.score_stream_with_lengths(whole)
        return scores[is_own], lengths[is_own]

    def score_stream_in_full(self, stream: Tokens) -> StreamScores:
        """As `StreamScorer.score_stream_in_full`."""
        whole, is_own = self._padded_stream(stream)
        return StreamScores(*(column[is_own] for column in self.base.score_stream_in_full(whole)))

    def start(self, prefixes: Sequence[Tokens]) -> Contexts:
        """As `LanguageModel.start`."""
        return self.base.start([self._after_padding(prefix) for prefix in prefixes])

    def log_probs_of(
        self, state: Contexts, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """As `LanguageModel.log_probs_of`."""
        return self.base.log_probs_of(state, rows, tokens)

    def next_log_probs(self, state: Contexts) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""
        return self.base.next_log_probs(state)

    def top(self, state: Contexts, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """As `LanguageModel.top`."""
        return self.base.top(state, k)

    def draw(
        self, state: Contexts, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """As `LanguageModel.draw`."""
        return self.base.draw(state, uniforms, banned)

    def backoff_chain(self, state: Contexts, tokens: Int32[ndarray, " tokens"]) -> list[BackoffStep]:
        """As `TrieModel.backoff_chain`."""
        return self.base.backoff_chain(state, tokens)

    def continuations(
        self, state: Contexts, context_length: int
    ) -> tuple[Int32[ndarray, " tokens"], Float32[ndarray, " tokens"], Float32[ndarray, " tokens"]]:
        """As `TrieModel.continuations`."""
        return self.base.continuations(state, context_length)

    def advance(self, state: Contexts, tokens: Int32[ndarray, " rows"]) -> Contexts:
        """As `LanguageModel.advance`."""
        new = self.base.advance(state, tokens)
        new[np.flatnonzero(as_tokens(tokens) == END)] = self._start[0]
        return new

    def select(self, state: Contexts, rows: Int32[ndarray, " new_rows"]) -> Contexts:
        """As `LanguageModel.select`."""
        return self.base.select(state, rows)

    def join(self, states: Sequence[Contexts]) -> Contexts:
        """As `LanguageModel.join`."""
        return self.base.join(states)

    def _padded_stream(self, stream: Tokens) -> tuple[Tokens, Bool[ndarray, " padded"] | slice]:
        """The padded stream, and a mask of the tokens of the original one."""
        check_tokens(stream, self.vocabulary_size)
        return pad_documents(stream, self._padding.size)

    def _padded(self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None) -> list[Tokens]:
        check_prefixes(len(sequences), prefixes)
        if prefixes is None:
            return [self._padding] * len(sequences)
        return [self._after_padding(prefix) for prefix in prefixes]

    def _after_padding(self, prefix: Tokens) -> Tokens:
        """The last document of a prefix, after its <s>."""
        ends = np.flatnonzero(as_tokens(prefix) == END)
        return np.concatenate([self._padding, as_tokens(prefix)[ends[-1] + 1 if ends.size else 0 :]])
