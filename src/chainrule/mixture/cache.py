"""A unigram cache: words used recently are likely to be used again.

Kuhn and De Mori, A cache-based natural language model for speech recognition (1990). With c(w) the count of w among the
last M tokens of the document,

    P(w | h) = (c(w) + 1 / (V - 1)) / (sum of c + 1)

which is a distribution from the first token on, and meant to be mixed with another model. The cache keeps known words
only, neither <unk> nor </s>, and is empty at the start of a document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import as_tokens, check_rows, check_tokens, in_one_stream
from chainrule.base.distributions import ArrayStates, ByDistributions
from chainrule.errors import SettingError
from chainrule.mixture.config import MAX_CACHE
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    Sequences = Sequence[Int32[ndarray, " T"]]
    Recent = Int32[ndarray, "B words"]

_EMPTY = -1


class UnigramCache(ArrayStates["Recent"], ByDistributions["Recent"]):
    """P(w) by frequency among the last tokens. The state is these tokens, one row for each sequence, latest last."""

    end = END

    def __init__(self, vocabulary_size: int, words: int) -> None:
        """Raises SettingError."""
        if type(words) is not int or not 1 <= words <= MAX_CACHE:
            raise SettingError(f"the cache has {words!r} words; expected a whole number from 1 to {MAX_CACHE:,}")
        self.vocabulary_size, self.words = vocabulary_size, words

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        scores = self.score_stream(stream)
        return [scores[span] for span in spans]

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        check_tokens(stream, self.vocabulary_size)
        first, kept = self._windows(stream)
        keys = as_tokens(stream).astype(np.int64) * (len(stream) + 1)
        positions = np.arange(len(stream))
        sorted_keys = np.sort(keys + positions)  # by token, then by position
        times = np.searchsorted(sorted_keys, keys + positions) - np.searchsorted(sorted_keys, keys + first)
        scores = self._log_prob(np.where(_is_kept(stream), times, 0), kept)
        scores[stream == BEGIN] = -np.inf
        return scores

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        check_tokens(stream, self.vocabulary_size)
        shares = self._log_prob(np.zeros(len(stream), np.int64), self._windows(stream)[1])
        return [shares[span] for span in spans]

    def start(self, prefixes: Sequences) -> Recent:
        """As `LanguageModel.start`."""
        recent = np.full((len(prefixes), self.words), _EMPTY, np.int32)
        for row, prefix in zip(recent, prefixes, strict=True):
            tokens = as_tokens(prefix)
            check_tokens(tokens, self.vocabulary_size)
            tokens = tokens[1 + np.flatnonzero(tokens == END)[-1] :] if np.any(tokens == END) else tokens
            row[self.words - len(tokens[-self.words :]) :] = tokens[-self.words :]
        return recent

    def next_log_probs(self, state: Recent) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        times = np.zeros((len(state), self.vocabulary_size), np.int64)
        rows, columns = np.nonzero(_is_kept(state))
        np.add.at(times, (rows, state[rows, columns]), 1)
        log_probs = self._log_prob(times, times.sum(axis=1, keepdims=True))
        log_probs[:, BEGIN] = -np.inf
        return log_probs

    def advance(self, state: Recent, tokens: Int32[ndarray, " B"]) -> Recent:
        """As `LanguageModel.advance`."""
        check_rows(tokens, len(state))
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        recent = np.concatenate([state[:, 1:], tokens.astype(np.int32)[:, None]], axis=1)
        recent[tokens == END] = _EMPTY
        return recent

    def _log_prob(self, times: Int64[ndarray, "*shape"], kept: Int64[ndarray, "*shape"]) -> Float32[ndarray, "*shape"]:
        """times: how often the token is in the cache. kept: how many tokens are in it."""
        return np.log((times + 1 / (self.vocabulary_size - 1)) / (kept + 1)).astype(np.float32)

    def _windows(self, stream: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], Int64[ndarray, " T"]]:
        """For each position of a stream: where its cache begins, and how many words are in the cache."""
        positions = np.arange(len(stream))
        begins = np.zeros(len(stream), np.int64)  # of documents
        begins[1:][stream[:-1] == END] = positions[1:][stream[:-1] == END]
        first = np.maximum(np.maximum.accumulate(begins), positions - self.words)
        before = np.concatenate([[0], np.cumsum(_is_kept(stream))])  # number of cacheable words before each position
        return first, before[:-1] - before[first]


def _is_kept(tokens: ndarray) -> ndarray:
    return tokens > max(UNKNOWN, BEGIN, END)
