"""An n-gram model behind the waist.

Its state is an array of trie nodes, a row for each sequence, so that a copy of it is a state of its own.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import ModelFormatError, SettingError
from chainrule.jit import run_all
from chainrule.ngram.choosing_kernels import best_words, draw_words
from chainrule.ngram.query_kernels import NO_NODE, advance, distributions, score_stream
from chainrule.ngram.unknown_kernels import score_token
from chainrule.ngram.walking_kernels import walk_stream
from chainrule.protocol import (
    BEGIN,
    END,
    NAN_FOUND,
    NOTHING_TO_DRAW,
    UNKNOWN,
    as_tokens,
    check_draw,
    check_log_probs,
    check_prefixes,
    check_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int, Int32, Int64
    from numpy import ndarray

    from chainrule.ngram.table import Table

    Contexts = Int64[ndarray, "rows order-1"]

PARALLEL_TOKENS = 1 << 16  # shorter streams are not worth a thread
WALKED_TOKENS = 1 << 11  # of shorter streams, parts to be walked at once would be too short


class NGramModel:
    """P(w | the last N-1 tokens), from a table; `</s>` starts the next document."""

    end = END
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

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `Scorer.score`."""
        return self.score_with_lengths(sequences, prefixes=prefixes, end=end)[0]

    def match_lengths(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Int[ndarray, " tokens"]]:
        """The length of the n-gram that gave each token's probability: 1 where nothing longer was known."""
        return self.score_with_lengths(sequences, prefixes=prefixes, end=end)[1]

    def score_with_lengths(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Int[ndarray, " tokens"]]]:
        """What `score` and `match_lengths` give, in one go."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        scores, lengths = self.score_stream_with_lengths(stream)
        return [scores[span] for span in spans], [lengths[span] for span in spans]

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """As `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        check_tokens(stream, self.vocabulary_size)
        stream = stream.astype(np.int32, casting="same_kind", copy=False)
        scores = np.empty(stream.size, np.float32)
        run_pieces(score_token, (*self._arrays(), self.order, UNKNOWN, stream), (scores,))
        check_log_probs(scores)
        return [scores[span] for span in spans]

    def score_stream(self, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " tokens"]:
        """As `Scorer.score_stream`."""
        return self.score_stream_with_lengths(stream)[0]

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """The log-probability of each token of a stream, and the length of the n-gram that gave it."""
        check_tokens(stream, self.vocabulary_size)
        stream = stream.astype(np.int32, casting="same_kind", copy=False)
        scores, lengths = np.empty(stream.size, np.float32), np.empty(stream.size, np.uint8)
        arrays = *self._arrays(), self.table.slots
        if self.table.suffixes.size and stream.size >= WALKED_TOKENS:
            run_pieces(walk_stream, (*arrays, self.table.suffixes, self.order, stream), (scores, lengths))
        else:
            run_pieces(score_stream, (*arrays, self.order, stream), (scores, lengths))
        check_log_probs(scores)
        return scores, lengths

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> Contexts:
        """As `LanguageModel.start`."""
        contexts = np.full((len(prefixes), self.order - 1), NO_NODE, np.int64)
        contexts[:, :1] = 1 + BEGIN
        longest = max(map(len, prefixes), default=0)
        for i in range(longest):
            rows = np.array([row for row, prefix in enumerate(prefixes) if i < len(prefix)])
            tokens = np.array([prefixes[row][i] for row in rows])
            contexts[rows] = self.advance(contexts[rows], tokens)
        return contexts

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
        if len(tokens) != len(state):
            raise SettingError(f"{len(tokens)} tokens for {len(state)} rows; give one to each")
        tokens = as_tokens(tokens)
        check_tokens(tokens, self.vocabulary_size)
        tokens = np.ascontiguousarray(tokens, np.int32)
        return advance(self.table.words, self.table.begin, self.table.log_backoffs.size, state, tokens)

    def select(self, state: Contexts, rows: Int32[ndarray, " new_rows"]) -> Contexts:
        """As `LanguageModel.select`."""
        return state[rows]

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


def in_one_stream(
    sequences: Sequence[Int32[ndarray, " tokens"]],
    prefixes: Sequence[Int32[ndarray, " prefix"]] | None,
    *,
    end: bool,
) -> tuple[Int32[ndarray, " stream"], list[slice]]:
    """All sequences, each behind its prefix and with </s> after it; and where the scores of each are."""
    check_prefixes(len(sequences), prefixes)
    sequences = [as_tokens(sequence) for sequence in sequences]
    prefixes = prefixes and [as_tokens(prefix) for prefix in prefixes]
    parts: list[Int32[ndarray, " tokens"]] = []
    document_end = np.array([END], np.int32)
    for i, sequence in enumerate(sequences):
        parts += [sequence, document_end] if prefixes is None else [prefixes[i], sequence, document_end]
    stream = np.concatenate(parts) if parts else np.empty(0, np.int32)
    sizes = np.fromiter(map(len, sequences), np.int64, len(sequences))
    before = np.zeros_like(sizes) if prefixes is None else np.fromiter(map(len, prefixes), np.int64, len(prefixes))
    ends = np.cumsum(before + sizes + 1)  # past each one's </s>
    starts, stops = (ends - 1 - sizes).tolist(), (ends if end else ends - 1).tolist()
    return stream, [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]


def run_pieces(kernel: Callable[..., None], before: tuple[Any, ...], after: tuple[ndarray, ...]) -> None:
    """Runs a kernel that takes `before`, whose last is the stream, then a range of it, then `after`."""
    pieces = [(*before, start, stop, *after) for start, stop in pieces_of(before[-1])]
    if len(pieces) > 1:
        run_all(kernel, pieces)
    else:
        for piece in pieces:
            kernel(*piece)


def pieces_of(stream: Int32[ndarray, " tokens"]) -> list[tuple[int, int]]:
    """Parts of a stream that begin where documents do, each of at least PARALLEL_TOKENS but the last."""
    cuts = [0]
    while stream.size - cuts[-1] > 2 * PARALLEL_TOKENS:
        ends = np.flatnonzero(stream[cuts[-1] + PARALLEL_TOKENS : cuts[-1] + 2 * PARALLEL_TOKENS] == END)
        if not ends.size:
            break
        cuts.append(cuts[-1] + PARALLEL_TOKENS + int(ends[0]) + 1)
    return list(zip(cuts, [*cuts[1:], stream.size], strict=True)) if stream.size else []
