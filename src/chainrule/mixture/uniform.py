"""The uniform model: all tokens are equally likely. The floor for any model, and the smallest example of one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.arguments import as_tokens, check_prefixes, check_rows, check_tokens
from chainrule.base.distributions import ArrayStates, ByDistributions
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    Rows = Float32[ndarray, "B 0"]


@dataclass(frozen=True, kw_only=True)
class UniformConfig:
    """The uniform model has no settings."""


class UniformModel(ArrayStates["Rows"], ByDistributions["Rows"]):
    """P(w | any context) = 1 / (V - 1), since <s> is never predicted. Its state is an array of empty rows."""

    end = END

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `Scorer.score`."""
        check_prefixes(len(sequences), prefixes)
        for tokens in [*sequences, *(prefixes or [])]:
            check_tokens(as_tokens(tokens), self.vocabulary_size)
        scores = [
            np.full(len(sequence) + end, -math.log(self.vocabulary_size - 1), np.float32) for sequence in sequences
        ]
        for row, sequence in zip(scores, sequences, strict=True):
            row[: len(sequence)][as_tokens(sequence) == BEGIN] = -np.inf
        return scores

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        check_tokens(stream, self.vocabulary_size)
        return np.where(stream == BEGIN, -np.inf, -math.log(self.vocabulary_size - 1)).astype(np.float32)

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        check_prefixes(len(sequences), prefixes)
        return [np.full(len(row) + end, -math.log(self.vocabulary_size - 1), np.float32) for row in sequences]

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> Rows:
        """Implement `LanguageModel.start`."""
        for tokens in prefixes:
            check_tokens(as_tokens(tokens), self.vocabulary_size)
        return np.empty((len(prefixes), 0), np.float32)

    def next_log_probs(self, state: Rows) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = np.full((len(state), self.vocabulary_size), -math.log(self.vocabulary_size - 1), np.float32)
        rows[:, BEGIN] = -np.inf
        return rows

    def advance(self, state: Rows, tokens: Int32[ndarray, " B"]) -> Rows:
        """Implement `LanguageModel.advance`."""
        check_rows(tokens, len(state))
        check_tokens(as_tokens(tokens), self.vocabulary_size)
        return state
