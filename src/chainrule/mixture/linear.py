"""Linear interpolation: P(w | h) = sum of weight_i(h) P_i(w | h).

Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980). The weights are the
same everywhere, or depend on the class of the token before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError
from chainrule.mixture.components import joined, previous_tokens, split_as, stream_with_unknown
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32, UInt8
    from numpy import ndarray

    from chainrule.mixture.components import Components, MixtureState

    Sequences = Sequence[Int32[ndarray, " T"]]


class LinearMixture(ByDistributions["MixtureState"]):
    """A mixture of language models. Its state is theirs, with the last token of each row."""

    end = END
    kind = "linear"

    def __init__(
        self,
        components: Components,
        weights: Float64[ndarray, "classes models"],
        classes: UInt8[ndarray, " V"] | None = None,
    ) -> None:
        """classes: the row of the weights that counts after each token; without it, there is only one.

        Raises ModelFormatError if they contradict each other.
        """
        self.components, self.weights, self.classes = components, weights, classes
        self.vocabulary_size = components.vocabulary_size
        if weights.ndim != 2 or weights.shape[1] != len(components.models) or not len(weights):
            raise ModelFormatError(f"a mixture of {len(components.models)} models has weights {list(weights.shape)}")
        if not np.all(weights >= 0) or not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-3):
            raise ModelFormatError("the weights of a linear mixture do not sum to 1")
        if classes is not None and (
            classes.dtype != np.uint8 or classes.shape != (self.vocabulary_size,) or classes.max() >= len(weights)
        ):
            raise ModelFormatError("the classes of a mixture's tokens are none; its file is damaged: chainrule verify")
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(weights).astype(np.float32)

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        scores = [model.score(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolated(scores, sequences, prefixes, end=end)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        scores = [model.score_stream(stream) for model in self.components.models]
        return self._mixed(scores, np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)])

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """The log-probabilities of a stream's tokens, and of <unk> at their places.

        on_share: called after each component with the share that is done.
        """
        previous = np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)]
        found = []
        for model in self.components.models:
            found.append(stream_with_unknown(model, stream))
            if on_share is not None:
                on_share(len(found) / len(self.components.models))
        return self._mixed([scores for scores, _ in found], previous), self._mixed(
            [share for _, share in found], previous
        )

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        shares = [model.unknown_log_probs(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolated(shares, sequences, prefixes, end=end)

    def start(self, prefixes: Sequences) -> MixtureState:
        """As `LanguageModel.start`."""
        return self.components.start(prefixes)

    def next_log_probs(self, state: MixtureState) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        rows = self.components.rows(state)
        weights = self._weights_after(state.previous)[:, :, None]  # (models, rows, 1)
        mixed = rows[0] + weights[0]
        for weight, others in zip(weights[1:], rows[1:], strict=True):
            np.logaddexp(mixed, others + weight, out=mixed)
        return mixed

    def advance(self, state: MixtureState, tokens: Int32[ndarray, " B"]) -> MixtureState:
        """As `LanguageModel.advance`."""
        return self.components.advance(state, tokens)

    def select(self, state: MixtureState, rows: Int32[ndarray, " new_B"]) -> MixtureState:
        """As `LanguageModel.select`."""
        return self.components.select(state, rows)

    def _interpolated(
        self, scores: list[list[ndarray]], sequences: Sequences, prefixes: Sequences | None, *, end: bool
    ) -> list[ndarray]:
        """What the components give every sequence, as one."""
        previous = previous_tokens(sequences, prefixes, end=end)
        return split_as(self._mixed([joined(rows) for rows in scores], previous), scores[0])

    def _mixed(
        self, scores: list[Float32[ndarray, " places"]], previous: Int32[ndarray, " places"]
    ) -> Float32[ndarray, " places"]:
        weights = self._weights_after(previous)
        mixed = scores[0] + weights[0]
        for weight, others in zip(weights[1:], scores[1:], strict=True):
            mixed = np.logaddexp(mixed, others + weight)
        return mixed

    def _weights_after(self, previous: Int32[ndarray, " places"]) -> Float32[ndarray, "models places"]:
        if self.classes is None:
            return np.repeat(self._log_weights.T, len(previous), axis=1)
        return self._log_weights[self.classes[previous]].T
