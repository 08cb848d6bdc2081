"""What n-gram models share: text is scored as one stream, on several threads; states are rows of an array."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import as_tokens, check_rows, check_tokens, in_one_stream
from chainrule.base.distributions import ArrayStates
from chainrule.base.threads import run_all
from chainrule.protocol import END, StreamScores

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float32, Int, Int32, Int64
    from numpy import ndarray

    Rows = Int64[ndarray, "rows numbers"]
    Tokens = Int32[ndarray, " tokens"]

PARALLEL_TOKENS = 1 << 16  # shorter streams are not worth a thread


class StreamScorer(ABC, ArrayStates["Rows"]):
    """The methods of a language model that can be derived from scoring a stream and from `advance`."""

    end = END
    begins = 1  # how many <s> a document begins with
    is_distribution = True
    why_no_table: str | None = None  # why the model is more than its n-gram table, in words
    settings: Mapping[str, Any] = MappingProxyType({})  # what `model_from_settings` restores the class from
    vocabulary_size: int

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `Scorer.score`."""
        return self.score_with_lengths(sequences, prefixes=prefixes, end=end)[0]

    def match_lengths(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Int[ndarray, " tokens"]]:
        """Return the length of the n-gram that gave each token's probability: 1 where no longer one is known."""
        return self.score_with_lengths(sequences, prefixes=prefixes, end=end)[1]

    def score_with_lengths(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> tuple[list[Float32[ndarray, " tokens"]], list[Int[ndarray, " tokens"]]]:
        """Return the results of `score` and `match_lengths`, in one pass."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        scores, lengths = self.score_stream_with_lengths(stream)
        return [scores[span] for span in spans], [lengths[span] for span in spans]

    def score_stream(self, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " tokens"]:
        """Implement `Scorer.score_stream`."""
        return self.score_stream_with_lengths(stream)[0]

    def score_stream_with_lengths(
        self, stream: Int32[ndarray, " tokens"]
    ) -> tuple[Float32[ndarray, " tokens"], Int[ndarray, " tokens"]]:
        """Return the log-probability of each token of a stream, and the length of the n-gram that gave it."""
        scores, lengths, _ = self._score(stream, unknown=False)
        return scores, lengths

    def score_stream_in_full(self, stream: Int32[ndarray, " tokens"]) -> StreamScores:
        """Return the scores of `score_stream_with_lengths`, with the log-probability of <unk> at the same positions, in
        one pass.
        """
        return self._score(stream, unknown=True)

    @abstractmethod
    def _score(self, stream: Int32[ndarray, " tokens"], *, unknown: bool) -> StreamScores:
        """Return the scores of a stream.

        unknown: whether to score <unk> at all positions, too; if not, its log-probabilities are empty.
        """

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " tokens"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        stream, spans = in_one_stream(sequences, prefixes, end=end)
        log_probs = self.score_stream_in_full(stream).unknown_log_probs
        return [log_probs[span] for span in spans]

    def start(self, prefixes: Sequence[Tokens]) -> Rows:
        """Implement `LanguageModel.start`. Of a long prefix, only as many tokens are read as the state can depend
        on.
        """
        for prefix in prefixes:
            check_tokens(as_tokens(prefix), self.vocabulary_size)
        prefixes = [prefix[max(0, len(prefix) - self.order + 1) :] for prefix in prefixes]
        states = np.tile(self._begin_state, (len(prefixes), 1))
        for i in range(max(map(len, prefixes), default=0)):
            rows = np.array([row for row, prefix in enumerate(prefixes) if i < len(prefix)])
            states[rows] = self.advance(states[rows], np.array([prefixes[row][i] for row in rows]))
        return states

    @property
    @abstractmethod
    def order(self) -> int: ...

    @abstractmethod
    def advance(self, state: Rows, tokens: Int32[ndarray, " rows"]) -> Rows:
        """Implement `LanguageModel.advance`."""

    @property
    @abstractmethod
    def _begin_state(self) -> Int64[ndarray, " numbers"]:
        """The state after <s>."""

    def _checked(self, tokens: Int32[ndarray, " tokens"]) -> Int32[ndarray, " tokens"]:
        """Return the tokens as a contiguous int32 array. Raises SettingError where one is not in the vocabulary."""
        check_tokens(tokens, self.vocabulary_size)
        return np.ascontiguousarray(tokens.astype(np.int32, casting="same_kind", copy=False))

    def _checked_for(self, state: Rows, tokens: Int32[ndarray, " rows"]) -> Int32[ndarray, " rows"]:
        """Return the tokens of `_checked`, for one token in each row of a state; raises SettingError if there are more
        or fewer.
        """
        check_rows(tokens, len(state))
        return self._checked(as_tokens(tokens))


def run_pieces(kernel: Callable[..., None], before: tuple[Any, ...], after: tuple[Any, ...]) -> None:
    """Run kernel(*before, start, stop, *after) for all parts of the stream, which is the last item of `before`."""
    pieces = [(*before, start, stop, *after) for start, stop in pieces_of(before[-1])]
    if len(pieces) > 1:
        run_all(kernel, pieces)
    else:
        for piece in pieces:
            kernel(*piece)


def pieces_of(stream: Int32[ndarray, " tokens"]) -> list[tuple[int, int]]:
    """Cut a stream between documents into parts of at least PARALLEL_TOKENS, except for the last one."""
    cuts = [0]
    while stream.size - cuts[-1] > 2 * PARALLEL_TOKENS:
        ends = np.flatnonzero(stream[cuts[-1] + PARALLEL_TOKENS : cuts[-1] + 2 * PARALLEL_TOKENS] == END)
        if not ends.size:
            break
        cuts.append(cuts[-1] + PARALLEL_TOKENS + int(ends[0]) + 1)
    return list(zip(cuts, [*cuts[1:], stream.size], strict=True)) if stream.size else []
