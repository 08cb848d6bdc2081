"""What engines around a network share: they read texts in parts, and change what the network predicts there."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import after_prefixes, as_tokens, check_tokens
from chainrule.base.distributions import ByDistributions
from chainrule.protocol import END, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.neural.language_model import NeuralModel

    Tokens = Int32[ndarray, " T"]


class AroundNetwork(ByDistributions[State]):
    """A language model made of a network.

    family: that of the network, which does not change. counts_unknown: whether <unk> in a text is evidence that it
    comes again.
    """

    end = END

    def __init__(self, family: str, model: NeuralModel, *, counts_unknown: bool) -> None:
        self.family, self.model, self.counts_unknown = family, model, counts_unknown
        self.vocabulary_size = model.vocabulary_size

    @property
    @abstractmethod
    def stream_signature(self) -> str:
        """How a stream is read, as a short text for records."""

    @abstractmethod
    def read_texts(
        self, texts: Sequence[Tokens], on_share: Callable[[float], None] | None = None
    ) -> list[Float32[ndarray, "T 2"]]:
        """Return the log-probabilities of the tokens of some texts, and of <unk> in their places.

        on_share: a callback for the share of a text that is done, from 0 to 1.
        """

    @abstractmethod
    def rows_along(self, stream: Tokens) -> Iterator[Float32[ndarray, "part V"]]:
        """Yield the distributions before each token of a stream, in parts of any size."""

    def score(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `Scorer.score`; each sequence, after its prefix, is read as if nothing came before it."""
        return [scores[:, 0] for scores in self._score(sequences, prefixes, end=end)]

    def unknown_log_probs(
        self, sequences: Sequence[Tokens], *, prefixes: Sequence[Tokens] | None = None, end: bool = True
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return [scores[:, 1] for scores in self._score(sequences, prefixes, end=end)]

    def score_stream(self, stream: Tokens) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`: what documents before have said counts, unless it is forgotten."""
        return self.score_stream_with_unknown(stream)[0]

    def score_stream_with_unknown(
        self, stream: Tokens, on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: as in `read_texts`.
        """
        [scores] = self.read_texts([self._checked(stream)], on_share)
        return scores[:, 0], scores[:, 1]

    def stream_rows(self, stream: Tokens, size: int) -> Iterator[Float32[ndarray, "part V"]]:
        """Implement `StreamReader.stream_rows`."""
        waiting = np.empty((0, self.vocabulary_size), np.float32)
        for rows in self.rows_along(self._checked(stream)):
            waiting = np.concatenate([waiting, rows])
            while len(waiting) >= size:
                yield waiting[:size]
                waiting = waiting[size:]
        if len(waiting):
            yield waiting

    def _score(
        self, sequences: Sequence[Tokens], prefixes: Sequence[Tokens] | None, *, end: bool
    ) -> list[Float32[ndarray, "T 2"]]:
        texts = after_prefixes(sequences, prefixes, self.vocabulary_size, end=end)
        scores = self.read_texts([text for text, _ in texts])
        return [own[span] for own, (_, span) in zip(scores, texts, strict=True)]

    def _checked(self, stream: Tokens) -> Tokens:
        check_tokens(stream := as_tokens(stream), self.vocabulary_size)
        return stream
