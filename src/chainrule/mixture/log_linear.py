"""Log-linear interpolation: P(w | h) = product of P_i(w | h)^weight_i / Z(h).

Klakow, Log-linear interpolation of language models (1998). Z(h) sums over the whole vocabulary, so scoring a token
costs as much as computing its whole distribution.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.distributions import ByDistributions
from chainrule.base.token_checks import as_tokens, check_prefixes, check_tokens
from chainrule.errors import ModelFormatError, SettingError
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray

    from chainrule.mixture.components import Components, MixtureState

    Sequences = Sequence[Int32[ndarray, " T"]]

BATCH_PROBS = 1 << 22  # probabilities of each component that a batch of sequences may have


class LogLinearMixture(ByDistributions["MixtureState"]):
    """A log-linear mixture of language models. The state is theirs."""

    end = END
    kind = "log-linear"

    def __init__(self, components: Components, weights: Float64[ndarray, " models"]) -> None:
        """Raises ModelFormatError if the weights do not fit the components."""
        self.components, self.weights = components, weights
        self.vocabulary_size = components.vocabulary_size
        if weights.shape != (len(components.models),) or not np.all(weights >= 0) or not 0 < weights.sum() < np.inf:
            raise ModelFormatError(f"a log-linear mixture of {len(components.models)} models has weights {weights}")

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        return self._score_by_steps(sequences, prefixes, end=end, token=None)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        return self.score([stream], end=False)[0]  # each component treats </s> in its own way

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"], on_share: Callable[[float], None] | None = None
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """The log-probabilities of a stream's tokens, and of <unk> at their positions.

        on_share: called once, after the first of the two, with the share that is done.
        """
        scores = self.score_stream(stream)
        if on_share is not None:
            on_share(0.5)
        return scores, self.unknown_log_probs([stream], end=False)[0]

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        return self._score_by_steps(sequences, prefixes, end=end, token=UNKNOWN)

    def start(self, prefixes: Sequences) -> MixtureState:
        """As `LanguageModel.start`."""
        return self.components.start(prefixes)

    def next_log_probs(self, state: MixtureState) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`. Raises SettingError if no token has a probability in all components."""
        rows = self.components.rows(state)
        pairs = [(row, weight) for row, weight in zip(rows, self.weights.tolist(), strict=True) if weight > 0]
        product = pairs[0][0] * np.float32(pairs[0][1])
        for row, weight in pairs[1:]:
            product += row * np.float32(weight)
        best = product.max(axis=1, keepdims=True, initial=-np.inf)
        if np.any(best == -np.inf):
            raise SettingError(
                "after some context, every token has probability zero in some model of the mixture; mix them linearly"
            )
        product -= best
        product -= np.log(np.exp(product).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
        return product

    def advance(self, state: MixtureState, tokens: Int32[ndarray, " B"]) -> MixtureState:
        """As `LanguageModel.advance`."""
        return self.components.advance(state, tokens)

    def select(self, state: MixtureState, rows: Int32[ndarray, " new_B"]) -> MixtureState:
        """As `LanguageModel.select`."""
        return self.components.select(state, rows)

    def join(self, states: Sequence[MixtureState]) -> MixtureState:
        """As `LanguageModel.join`."""
        return self.components.join(states)

    def _score_by_steps(
        self, sequences: Sequences, prefixes: Sequences | None, *, end: bool, token: int | None
    ) -> list[ndarray]:
        """The log-probability of each token, or of the given one at every position, by advancing step by step."""
        check_prefixes(len(sequences), prefixes)
        sequences = [as_tokens(sequence) for sequence in sequences]
        for sequence in sequences:
            check_tokens(sequence, self.vocabulary_size)
        log_probs_of = [np.empty(len(sequence) + end, np.float32) for sequence in sequences]
        batch = max(1, BATCH_PROBS // self.vocabulary_size)
        for first in range(0, len(sequences), batch):
            rows = np.arange(first, min(first + batch, len(sequences)))
            state = self.start([np.empty(0, np.int32) if prefixes is None else prefixes[int(row)] for row in rows])
            step = 0
            while True:
                unfinished = np.flatnonzero([log_probs_of[row].size > step for row in rows]).astype(np.int32)
                rows, state = rows[unfinished], self.select(state, unfinished)
                if not rows.size:
                    break
                next_tokens = np.array(
                    [sequences[r][step] if step < len(sequences[r]) else END for r in rows], np.int32
                )
                chosen = next_tokens if token is None else np.full(rows.size, token)
                log_probs = self.next_log_probs(state)[np.arange(rows.size), chosen]
                for row, log_prob in zip(rows.tolist(), log_probs, strict=True):
                    log_probs_of[row][step] = log_prob
                state = self.advance(state, next_tokens)
                step += 1
        return log_probs_of
