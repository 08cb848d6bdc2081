"""A unigram cache: words that were used a moment ago are likely to be used again.

Kuhn and De Mori, A cache-based natural language model for speech recognition (1990). By itself

    P(w | h) = (how often w is among the last M tokens of the document + 1 / (V - 1)) / (how many words are there + 1)

so that it is a distribution from the first token on; it is meant to be mixed with another model. Only known words are
kept, neither <unk> nor </s>. A document begins with nothing in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions
from chainrule.base.tokens import as_tokens, check_prefixes, check_tokens
from chainrule.errors import SettingError
from chainrule.mixture.config import MAX_CACHE
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    Sequences = Sequence[Int32[ndarray, " T"]]
    Recent = Int32[ndarray, "rows words"]

_NOTHING = -1


class UnigramCache(ByDistributions["Recent"]):
    """P(w) by the last tokens. Its state is these, a row for each sequence, the latest last."""

    end = END

    def __init__(self, vocabulary_size: int, words: int) -> None:
        """Raises SettingError."""
        if type(words) is not int or not 1 <= words <= MAX_CACHE:
            raise SettingError(f"a cache of {words!r} words; expected a whole number from 1 to {MAX_CACHE:,}")
        self.vocabulary_size, self.words = vocabulary_size, words

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        stream, spans = self._in_one_stream(sequences, prefixes, end=end)
        scores = self.score_stream(stream)
        return [scores[span] for span in spans]

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        check_tokens(stream, self.vocabulary_size)
        first, kept = self._windows(stream)
        keys = as_tokens(stream).astype(np.int64) * (len(stream) + 1)
        places = np.arange(len(stream))
        in_order = np.sort(keys + places)  # by token, then by place
        times = np.searchsorted(in_order, keys + places) - np.searchsorted(in_order, keys + first)
        scores = self._log_prob(np.where(_is_kept(stream), times, 0), kept)
        scores[stream == BEGIN] = -np.inf
        return scores

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = self._in_one_stream(sequences, prefixes, end=end)
        check_tokens(stream, self.vocabulary_size)
        shares = self._log_prob(np.zeros(len(stream), np.int64), self._windows(stream)[1])
        return [shares[span] for span in spans]

    def start(self, prefixes: Sequences) -> Recent:
        """As `LanguageModel.start`."""
        recent = np.full((len(prefixes), self.words), _NOTHING, np.int32)
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
        if len(tokens) != len(state):
            raise SettingError(f"{len(tokens)} tokens for {len(state)} rows; give one to each")
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        recent = np.concatenate([state[:, 1:], tokens.astype(np.int32)[:, None]], axis=1)
        recent[tokens == END] = _NOTHING
        return recent

    def select(self, state: Recent, rows: Int32[ndarray, " new_B"]) -> Recent:
        """As `LanguageModel.select`."""
        return state[rows]

    def _log_prob(self, times: Int64[ndarray, " places"], kept: Int64[ndarray, " places"]) -> ndarray:
        return np.log((times + 1 / (self.vocabulary_size - 1)) / (kept + 1)).astype(np.float32)

    def _windows(self, stream: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], Int64[ndarray, " T"]]:
        """Where the cache of each place begins in the stream, and how many words are in it."""
        places = np.arange(len(stream))
        begins = np.zeros(len(stream), np.int64)  # of documents
        begins[1:][stream[:-1] == END] = places[1:][stream[:-1] == END]
        first = np.maximum(np.maximum.accumulate(begins), places - self.words)
        before = np.concatenate([[0], np.cumsum(_is_kept(stream))])  # how many of the words stand before each place
        return first, before[:-1] - before[first]

    def _in_one_stream(
        self, sequences: Sequences, prefixes: Sequences | None, *, end: bool
    ) -> tuple[Int32[ndarray, " stream"], list[slice]]:
        """All sequences, each behind its prefix and with </s> after it; and where the scores of each are."""
        check_prefixes(len(sequences), prefixes)
        parts: list[ndarray] = [np.empty(0, np.int32)]
        spans = []
        size = 0
        for i, sequence in enumerate(sequences):
            prefix = as_tokens(prefixes[i]) if prefixes is not None else parts[0]
            size += len(prefix)
            spans.append(slice(size, size + len(sequence) + end))
            size += len(sequence) + 1
            parts += [prefix, as_tokens(sequence), np.array([END], np.int32)]
        return np.concatenate(parts), spans


def _is_kept(tokens: ndarray) -> ndarray:
    return tokens > max(UNKNOWN, BEGIN, END)
