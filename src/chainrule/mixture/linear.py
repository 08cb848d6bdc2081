"""Linear interpolation: P(w | h) = sum of weight_i(h) P_i(w | h).

Jelinek and Mercer, Interpolated estimation of Markov source parameters from sparse data (1980). The weights are
constant, or depend on the class of the previous token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError
from chainrule.mixture.components import join, previous_tokens, split_as, stream_with_unknown
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32, UInt8
    from numpy import ndarray

    from chainrule.mixture.components import Components, MixtureState

    Sequences = Sequence[Int32[ndarray, " T"]]


class LinearMixture(ByDistributions["MixtureState"]):
    """A linear mixture of language models. The state is theirs, and the last token of each row."""

    end = END
    kind = "linear"

    def __init__(
        self,
        components: Components,
        weights: Float64[ndarray, "classes models"],
        classes: UInt8[ndarray, " V"] | None = None,
    ) -> None:
        """classes: the row of `weights` that applies after each token; None if there is only one.

        Raises ModelFormatError if the arguments contradict each other.
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
            raise ModelFormatError(
                "the token classes of the mixture do not fit its weights; its file is damaged: try chainrule verify"
            )
        with np.errstate(divide="ignore"):
            self._log_weights = np.log(weights).astype(np.float32)

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        scores = [model.score(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolate(scores, sequences, prefixes, end=end)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        scores = [model.score_stream(stream) for model in self.components.models]
        return self._mix(scores, np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)])

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """The log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called after each component with the share that is done.
        """
        previous = np.concatenate([np.array([BEGIN], np.int32), stream[:-1]])[: len(stream)]
        pairs = []
        for model in self.components.models:
            pairs.append(stream_with_unknown(model, stream))
            if on_share is not None:
                on_share(len(pairs) / len(self.components.models))
        return self._mix([scores for scores, _ in pairs], previous), self._mix([share for _, share in pairs], previous)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        shares = [model.unknown_log_probs(sequences, prefixes=prefixes, end=end) for model in self.components.models]
        return self._interpolate(shares, sequences, prefixes, end=end)

    def start(self, prefixes: Sequences) -> MixtureState:
        """As `LanguageModel.start`."""
        return self.components.start(prefixes)

    def next_log_probs(self, state: MixtureState) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        rows = self.components.rows(state)
        weights = self.log_weights_after(state.previous)[:, :, None]  # (models, rows, 1)
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

    def join(self, states: Sequence[MixtureState]) -> MixtureState:
        """As `LanguageModel.join`."""
        return self.components.join(states)

    def _interpolate(
        self, scores: list[list[ndarray]], sequences: Sequences, prefixes: Sequences | None, *, end: bool
    ) -> list[ndarray]:
        """Interpolates the components' scores of every sequence."""
        previous = previous_tokens(sequences, prefixes, end=end)
        return split_as(self._mix([join(rows) for rows in scores], previous), scores[0])

    def _mix(
        self, scores: list[Float32[ndarray, " scored"]], previous: Int32[ndarray, " scored"]
    ) -> Float32[ndarray, " scored"]:
        weights = self.log_weights_after(previous)
        mixed = scores[0] + weights[0]
        for weight, others in zip(weights[1:], scores[1:], strict=True):
            mixed = np.logaddexp(mixed, others + weight)
        return mixed

    def log_weights_after(self, previous: Int32[ndarray, " scored"]) -> Float32[ndarray, "models scored"]:
        """The logarithms of the weights after each token."""
        if self.classes is None:
            return np.repeat(self._log_weights.T, len(previous), axis=1)
        return self._log_weights[self.classes[previous]].T
