"""Rows of log-probabilities: their best, draws from them, and checks; defaults for models that give whole rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

import numpy as np

from chainrule.base.bfloat16 import has_nan
from chainrule.base.tokens import as_tokens, check_prefixes, check_tokens
from chainrule.errors import EstimationError, ModelFormatError, SettingError
from chainrule.protocol import UNKNOWN, LanguageModel, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int32
    from numpy import ndarray


_LARGEST_LOG_PROB = (
    88  # nats; rounding may pass 0 by a little, an odd back-off by more, and exp of this is still a float32
)


NAN_FOUND = "a distribution of the model holds NaN or words in no order; its file is damaged: try chainrule verify"


NOTHING_TO_DRAW = "there is no token to draw: each is banned or has no probability; ban fewer"


class ByDistributions(ABC, Generic[State]):
    """The default `top` and `draw` of a language model: the whole distribution of each row is asked for."""

    @abstractmethod
    def next_log_probs(self, state: State) -> Float32[ndarray, "rows vocab"]:
        """As `LanguageModel.next_log_probs`."""

    def top(self, state: State, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """As `LanguageModel.top`."""
        return top_of(self.next_log_probs(state), k)

    def draw(
        self, state: State, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """As `LanguageModel.draw`."""
        return draw_of(self.next_log_probs(state), uniforms, banned)


def top_of(
    log_probs: Float32[ndarray, "rows vocab"], k: int
) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
    """The k largest of each row, best first, equal ones by lower id.

    Raises SettingError where k < 1, ModelFormatError where a row holds NaN.
    """
    if k < 1:
        raise SettingError(f"k is {k}; expected 1 or more")
    k = min(k, log_probs.shape[1])
    best = np.empty((len(log_probs), k), np.int32)
    for row, out in zip(log_probs, best, strict=True):
        threshold = np.partition(row, len(row) - k)[len(row) - k]
        candidates = np.flatnonzero(row >= threshold)  # ascending, so that a stable sort keeps lower ids first
        if len(candidates) < k:
            raise ModelFormatError(NAN_FOUND)
        out[:] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return np.take_along_axis(log_probs, best, axis=1), best


def unknown_log_probs_of(
    model: LanguageModel[State],
    sequences: Sequence[Int32[ndarray, " tokens"]],
    *,
    prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
    end: bool = True,
) -> list[Float32[ndarray, " tokens"]]:
    """The default `unknown_log_probs`: steps through all sequences at once, and makes every distribution."""
    check_prefixes(len(sequences), prefixes)
    found = [np.empty(len(sequence) + end, np.float32) for sequence in sequences]
    rows = np.array([row for row, out in enumerate(found) if out.size], np.int32)
    state = model.start([(prefixes[row] if prefixes is not None else np.empty(0, np.int32)) for row in rows])
    step = 0
    while rows.size:
        for row, log_prob in zip(rows.tolist(), model.next_log_probs(state)[:, UNKNOWN], strict=True):
            found[row][step] = log_prob
        step += 1
        going_on = np.flatnonzero([found[row].size > step for row in rows]).astype(np.int32)
        rows = rows[going_on]
        tokens = np.array([sequences[row][step - 1] for row in rows], np.int32)
        state = model.advance(model.select(state, going_on), tokens)
    return found


def draw_of(
    log_probs: Float32[ndarray, "rows vocab"], uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
    """The inversion of each row's cumulative distribution, tokens by id.

    Raises SettingError where nothing is left to draw, ModelFormatError where a row holds NaN.
    """
    forbidden = check_draw(len(log_probs), uniforms, banned, log_probs.shape[1])
    probs = np.exp(log_probs, dtype=np.float64)
    probs[:, forbidden] = 0
    tokens = inverted(probs, uniforms)
    return np.take_along_axis(log_probs, tokens[:, None], axis=1)[:, 0], tokens


def inverted(weights: Float64[ndarray, "rows k"], uniforms: Float64[ndarray, " rows"]) -> Int32[ndarray, " rows"]:
    """The column of each row at which its cumulative weights pass the row's number in [0, 1).

    Raises SettingError where a row's weights are all 0, ModelFormatError where one is NaN.
    """
    cumulative = weights.cumsum(axis=1)
    totals = cumulative[:, -1]
    if np.isnan(totals).any():
        raise ModelFormatError(NAN_FOUND)
    if not (totals > 0).all():
        raise SettingError(NOTHING_TO_DRAW)
    columns = [np.searchsorted(row, u, side="right") for row, u in zip(cumulative, uniforms * totals, strict=True)]
    return np.array(columns, np.int32)


def check_draw(
    rows: int, uniforms: Float64[ndarray, " rows"], banned: Sequence[int], vocabulary_size: int
) -> Int32[ndarray, " banned"]:
    """The banned ids, ascending. Raises SettingError where `draw` cannot be asked so."""
    if len(uniforms) != rows:
        raise SettingError(f"{len(uniforms)} numbers for {rows} rows; give one to each")
    if rows and not (uniforms.min() >= 0 and uniforms.max() < 1):
        raise SettingError("a number to draw with is outside [0, 1)")
    forbidden = np.unique(as_tokens(banned))
    check_tokens(forbidden, vocabulary_size)
    return forbidden.astype(np.int32)


def check_log_probs(log_probs: Float32[ndarray, " tokens"] | Float32[ndarray, "rows vocab"]) -> None:
    """Raises ModelFormatError where one is NaN, infinite, or so large that it comes from no probability."""
    if log_probs.size and not (largest := log_probs.max()) <= _LARGEST_LOG_PROB:  # NaN is not, either
        raise ModelFormatError(
            f"the model gives a log-probability of {largest}, which can be at most 0; its file is damaged: "
            "try chainrule verify, or make it again"
        )


def check_savable(name: str, array: ndarray) -> None:
    """Raises EstimationError where an array of a model that is to be saved has NaN: nobody could use that model."""
    if has_nan(array):
        raise EstimationError(
            f"the model has NaN, which is no number, in its {name}, so it is not saved: its settings do not suit its "
            "text, or what it was made of is damaged; make it again with others"
        )
