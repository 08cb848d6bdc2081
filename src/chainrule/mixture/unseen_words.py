"""Adjusts how many unseen types <unk> stands for, so that it means the same in all components of a mixture.

In some models, P(<unk>) is the probability of a single unseen type, in others that of all of them (see
`evaluation/token_costs.py`). A model that expects U unseen types becomes one that expects U / r, for the same texts:

    P'(<unk> | h) = r P(<unk> | h) / Z(h),    P'(w | h) = P(w | h) / Z(h),    Z(h) = 1 + (r - 1) P(<unk> | h)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.distributions import ByDistributions
from chainrule.base.token_checks import as_tokens
from chainrule.errors import ModelFormatError
from chainrule.mixture.components import stream_with_unknown
from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Sequences = Sequence[Int32[ndarray, " T"]]


class FewerUnseen(ByDistributions[Any]):
    """A language model with `ratio` times the odds of <unk>. The state is that of the model."""

    end = END

    def __init__(self, model: LanguageModel[Any], ratio: float) -> None:
        """Raises ModelFormatError."""
        if not (isinstance(ratio, int | float) and 1 <= ratio < math.inf):
            raise ModelFormatError(f"the unseen_ratio of <unk> is {ratio!r}; expected a number, 1 or more")
        self.model, self.ratio, self.vocabulary_size = model, float(ratio), model.vocabulary_size

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """As `Scorer.score`."""
        scores = self.model.score(sequences, prefixes=prefixes, end=end)
        shares = self.model.unknown_log_probs(sequences, prefixes=prefixes, end=end)
        return [
            self._adjust(score, share, np.append(as_tokens(sequence), END)[: score.size] == UNKNOWN)
            for score, share, sequence in zip(scores, shares, sequences, strict=True)
        ]

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """As `Scorer.score_stream`."""
        return self.score_stream_with_unknown(stream)[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"]
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """The log-probabilities of a stream's tokens, and of <unk> at their positions."""
        scores, share = stream_with_unknown(self.model, stream)
        everywhere = np.ones(share.size, np.bool_)
        return self._adjust(scores, share, as_tokens(stream) == UNKNOWN), self._adjust(share, share, everywhere)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """As `LanguageModel.unknown_log_probs`."""
        shares = self.model.unknown_log_probs(sequences, prefixes=prefixes, end=end)
        return [self._adjust(share, share, np.ones(share.size, np.bool_)) for share in shares]

    def start(self, prefixes: Sequences) -> Any:
        """As `LanguageModel.start`."""
        return self.model.start(prefixes)

    def next_log_probs(self, state: Any) -> Float32[ndarray, "B V"]:
        """As `LanguageModel.next_log_probs`."""
        rows = self.model.next_log_probs(state)
        return self._adjust(rows, rows[:, [UNKNOWN]], np.arange(self.vocabulary_size) == UNKNOWN)

    def advance(self, state: Any, tokens: Int32[ndarray, " B"]) -> Any:
        """As `LanguageModel.advance`."""
        return self.model.advance(state, tokens)

    def select(self, state: Any, rows: Int32[ndarray, " new_B"]) -> Any:
        """As `LanguageModel.select`."""
        return self.model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        """As `LanguageModel.join`."""
        return self.model.join(states)

    def _adjust(self, log_probs: ndarray, log_share: ndarray, unknown: ndarray) -> ndarray:
        """log_share: log P(<unk> | context) at each position. unknown: which positions are of <unk>."""
        odds = np.where(unknown, math.log(self.ratio), 0.0)
        log_total = np.log1p((self.ratio - 1) * np.exp(log_share, dtype=np.float64))
        adjusted: ndarray = (log_probs + (odds - log_total)).astype(np.float32)
        return adjusted
