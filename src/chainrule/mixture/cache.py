"""A cache: the n-grams of the document so far are likely to be used again.

Kuhn and De Mori, A cache-based natural language model for speech recognition (1990), have unigrams. With c(w) the count
of w among the last M tokens of the document, c(h w) and c(h) those of n-grams and contexts among them, and t(h) the
number of different tokens after h,

    P(w)     = (c(w) + 1 / (V - 1)) / (sum of c + 1)
    P(w | h) = (c(h w) + 2 t(h) P(w | h')) / (c(h) + 2 t(h)),    h' one token shorter

up to the longest context that was seen. The second is that of Witten and Bell (1991) with twice their escape. Both are
distributions from the first token on, and meant to be mixed with another model. The cache keeps known words only,
neither <unk> nor </s>, and is empty at the start of a document.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import as_tokens, check_rows, check_tokens, in_one_stream
from chainrule.base.distributions import ByDistributions
from chainrule.mixture.config import CacheConfig
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    Sequences = Sequence[Int32[ndarray, " T"]]
    Recent = Int32[ndarray, "B words"]

_EMPTY = -1  # a place of the state before the first token
EVIDENCE = 3  # numbers, as `Witness` has them


@dataclass
class WatchedCache:
    """A cache whose evidence is kept while its distributions are read along a stream, so that it is read once.

    parts: the evidence so far.
    """

    cache: NGramCache
    parts: list[Float32[ndarray, "part 3"]] = field(default_factory=list)

    def stream_rows(self, stream: Int32[ndarray, " T"], size: int) -> Iterator[Float32[ndarray, "part V"]]:
        """Implement `StreamReader.stream_rows`."""
        for rows, evidence in self.cache.stream_rows_with_evidence(stream, size):
            self.parts.append(evidence)
            yield rows

    def seen(self) -> Float32[ndarray, "T 3"]:
        """Return the evidence at all positions that were read."""
        return np.concatenate([np.empty((0, EVIDENCE), np.float32), *self.parts])


class NGramCache(ByDistributions["Recent"]):
    """P(w | h) by counts among the last tokens. The state is these tokens, a row for each sequence, the latest last."""

    end = END

    def __init__(self, vocabulary_size: int, words: int, order: int = 1) -> None:
        """Store the settings. Raises SettingError."""
        config = CacheConfig(words=words, order=order)
        self.vocabulary_size, self.words, self.order = vocabulary_size, config.words, config.order

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """Implement `Scorer.score`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        scores = self.score_stream(stream)
        return [scores[span] for span in spans]

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        return self._score(stream)[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"]
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions."""
        scores, shares, _ = self._score(stream)
        return scores, shares

    def score_stream_with_evidence(
        self, stream: Int32[ndarray, " T"]
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"], Float32[ndarray, "T 3"]]:
        """Return what `score_stream_with_unknown` and `stream_evidence` give, in one reading."""
        return self._score(stream)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """Implement `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        shares = self._score(stream)[1]
        return [shares[span] for span in spans]

    def stream_evidence(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, "T 3"]:
        """Implement `Witness.stream_evidence`."""
        return self._score(stream)[2]

    def evidence(self, state: Recent) -> Float32[ndarray, "B 3"]:
        """Implement `Witness.evidence`."""
        return self._distributions(state)[1]

    def start(self, prefixes: Sequences) -> Recent:
        """Implement `LanguageModel.start`."""
        rows = []
        for prefix in prefixes:
            tokens = as_tokens(prefix)
            check_tokens(tokens, self.vocabulary_size)
            tokens = tokens[1 + np.flatnonzero(tokens == END)[-1] :] if np.any(tokens == END) else tokens
            rows.append(tokens[max(0, len(tokens) - self.words) :].astype(np.int32)[None])
        return self.join(rows) if rows else np.empty((0, 0), np.int32)

    def next_log_probs(self, state: Recent) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        log_probs = np.log(self._distributions(state)[0]).astype(np.float32)
        log_probs[:, BEGIN] = -np.inf
        return log_probs

    def advance(self, state: Recent, tokens: Int32[ndarray, " B"]) -> Recent:
        """Implement `LanguageModel.advance`."""
        check_rows(tokens, len(state))
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        is_full = state.shape[1] == self.words
        recent = np.concatenate([state[:, 1:] if is_full else state, tokens.astype(np.int32)[:, None]], axis=1)
        recent[tokens == END] = _EMPTY
        return recent

    def select(self, state: Recent, rows: Int32[ndarray, " new_B"]) -> Recent:
        """Implement `LanguageModel.select`."""
        return state[rows]

    def join(self, states: Sequence[Recent]) -> Recent:
        """Implement `LanguageModel.join`."""
        longest = max(state.shape[1] for state in states)
        return np.concatenate(
            [np.pad(state, ((0, 0), (longest - state.shape[1], 0)), constant_values=_EMPTY) for state in states]
        )

    def stream_rows(self, stream: Int32[ndarray, " T"], size: int) -> Iterator[Float32[ndarray, "part V"]]:
        """Implement `StreamReader.stream_rows`."""
        for rows, _ in self.stream_rows_with_evidence(stream, size):
            yield rows

    def stream_rows_with_evidence(
        self, stream: Int32[ndarray, " T"], size: int
    ) -> Iterator[tuple[Float32[ndarray, "part V"], Float32[ndarray, "part 3"]]]:
        """Yield what `stream_rows` and `stream_evidence` give, in one reading."""
        for _, _, evidence, rows in self._parts(stream, size, with_rows=True):
            yield rows, evidence

    def _score(
        self, stream: Int32[ndarray, " T"]
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"], Float32[ndarray, "T 3"]]:
        """Return the scores of a stream, those of <unk> at the same positions, and the evidence there."""
        for scores, shares, evidence, _ in self._parts(stream, len(stream), with_rows=False):
            return scores, shares, evidence
        nothing = np.empty(0, np.float32)
        return nothing, nothing, nothing.reshape(0, EVIDENCE)

    def _parts(
        self, stream: Int32[ndarray, " T"], size: int, *, with_rows: bool
    ) -> Iterator[
        tuple[Float32[ndarray, " part"], Float32[ndarray, " part"], Float32[ndarray, "part 3"], Float32[ndarray, "R V"]]
    ]:
        """Yield some positions at a time: the scores of a stream, of <unk>, the evidence, and the distributions."""
        from chainrule.mixture.cache_kernels import empty_tables, score_by_cache

        check_tokens(stream, self.vocabulary_size)
        stream = np.ascontiguousarray(as_tokens(stream).astype(np.int32))
        tables, fixed = empty_tables(self.vocabulary_size, self.order, self.words, stream.size)
        for begin in range(0, stream.size, max(size, 1)):
            count = min(size, stream.size - begin)
            scores, shares = np.empty(count, np.float32), np.empty(count, np.float32)
            evidence = np.empty((count, EVIDENCE), np.float32)
            rows = np.empty((count if with_rows else 0, self.vocabulary_size), np.float32)
            tables = score_by_cache(
                stream, begin, self.order, self.words, tables, fixed, scores, shares, evidence, rows
            )
            scores[stream[begin : begin + count] == BEGIN] = -np.inf
            yield scores, shares, evidence, rows

    def _distributions(self, state: Recent) -> tuple[Float64[ndarray, "B V"], Float32[ndarray, "B 3"]]:
        from chainrule.mixture.cache_kernels import distributions_of_caches

        probs = np.empty((len(state), self.vocabulary_size))
        evidence = np.empty((len(state), EVIDENCE), np.float32)
        distributions_of_caches(np.ascontiguousarray(state), self.order, probs, evidence)
        return probs, evidence
