"""Log-probabilities by row: the best, draws, and checks; and defaults for models that compute whole distributions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from chainrule.base.arguments import after_prefixes, as_tokens, check_least, check_rows, check_tokens
from chainrule.base.bfloat16 import has_nan
from chainrule.base.scratch import parts_released
from chainrule.errors import EstimationError, ModelFormatError, SettingError
from chainrule.protocol import BEGIN, END, UNKNOWN, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel


Rows = TypeVar("Rows", bound=np.ndarray)

# In nats: rounding can exceed 0 slightly, and the backoff of a poor model by more. exp(88) still is a finite float32.
_LARGEST_LOG_PROB = 88

NAN_MESSAGE = (
    "the model's distribution has NaN, or words that are not in order; its file is damaged: try chainrule verify"
)
NOTHING_TO_DRAW_MESSAGE = "there is no token to draw: every one is banned or has probability zero; ban fewer"


class ByDistributions(ABC, Generic[State]):
    """The defaults of a language model that computes every row's whole distribution."""

    @abstractmethod
    def next_log_probs(self, state: State) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""

    def log_probs_of(
        self, state: State, rows: Int32[ndarray, " pairs"], tokens: Int32[ndarray, " pairs"]
    ) -> Float32[ndarray, " pairs"]:
        """Implement `LanguageModel.log_probs_of`."""
        log_probs = self.next_log_probs(state)
        check_tokens(tokens, log_probs.shape[1])
        return log_probs[rows, tokens]

    def top(self, state: State, k: int) -> tuple[Float32[ndarray, "B k"], Int32[ndarray, "B k"]]:
        """Implement `LanguageModel.top`."""
        return top_of(self.next_log_probs(state), k)

    def draw(
        self, state: State, uniforms: Float64[ndarray, " B"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
        """Implement `LanguageModel.draw`."""
        return draw_of(self.next_log_probs(state), uniforms, banned)


class ByContexts(ByDistributions[list[tuple[int, ...]]]):
    """The defaults of a language model that is a function of the tokens so far: the least that a model has to say.

    A state is a list with the context of each row: <s>, and the tokens of the document. Subclasses set the size of the
    vocabulary, and `reach`, if only so many of the last tokens count.
    """

    end = END
    vocabulary_size: int
    reach: int | None = None

    @abstractmethod
    def log_probs_after(self, context: tuple[int, ...]) -> Float32[ndarray, " V"]:
        """Return log P(w | context) for every token w, as a row of `LanguageModel.next_log_probs`."""

    def _grown(self, context: tuple[int, ...], tokens: Iterable[int]) -> tuple[int, ...]:
        """Return the context after more tokens; </s> begins a document."""
        for token in tokens:
            context = (BEGIN,) if token == END else (*context, token)
        return context if self.reach is None else context[max(0, len(context) - self.reach) :]

    def _after_each(self, text: Int32[ndarray, " T"]) -> list[Float32[ndarray, " V"]]:
        """Return the distribution before each token of a text."""
        context: tuple[int, ...] = (BEGIN,)
        rows = []
        for token in text.tolist():
            rows.append(self.log_probs_after(context))
            context = self._grown(context, [token])
        return rows

    def _scores(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None,
        end: bool,
        wanted: int | None = None,
    ) -> list[Float32[ndarray, " T"]]:
        """Return the scores of each text's tokens after its prefix, or of one token in their places."""
        scores = []
        for text, own in after_prefixes(sequences, prefixes, self.vocabulary_size, end=end):
            rows = zip(self._after_each(text)[own], text[own].tolist(), strict=True)
            scores.append(np.array([row[token if wanted is None else wanted] for row, token in rows], np.float32))
        return scores

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `Scorer.score`."""
        return self._scores(sequences, prefixes, end)

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]:
        """Implement `LanguageModel.unknown_log_probs`."""
        return self._scores(sequences, prefixes, end, UNKNOWN)

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        check_tokens(stream, self.vocabulary_size)
        rows = zip(self._after_each(stream), stream.tolist(), strict=True)
        return np.array([row[token] for row, token in rows], np.float32)

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> list[tuple[int, ...]]:
        """Implement `LanguageModel.start`."""
        for tokens in prefixes:
            check_tokens(as_tokens(tokens), self.vocabulary_size)
        return [self._grown((BEGIN,), as_tokens(tokens).tolist()) for tokens in prefixes]

    def next_log_probs(self, state: list[tuple[int, ...]]) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        rows = [self.log_probs_after(context) for context in state]
        return np.array(rows, np.float32).reshape(len(state), self.vocabulary_size)

    def advance(self, state: list[tuple[int, ...]], tokens: Int32[ndarray, " B"]) -> list[tuple[int, ...]]:
        """Implement `LanguageModel.advance`."""
        check_rows(tokens, len(state))
        check_tokens(as_tokens(tokens), self.vocabulary_size)
        return [self._grown(context, [token]) for context, token in zip(state, tokens.tolist(), strict=True)]

    def select(self, state: list[tuple[int, ...]], rows: Int32[ndarray, " new_B"]) -> list[tuple[int, ...]]:
        """Implement `LanguageModel.select`."""
        return [state[row] for row in rows.tolist()]

    def join(self, states: Sequence[list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
        """Implement `LanguageModel.join`."""
        return [context for state in states for context in state]


class ArrayStates(Generic[Rows]):
    """The steps of a model whose state is an array, with a row for each text."""

    def select(self, state: Rows, rows: Int32[ndarray, " new_rows"]) -> Rows:
        """Implement `LanguageModel.select`."""
        return state[rows]

    def join(self, states: Sequence[Rows]) -> Rows:
        """Implement `LanguageModel.join`."""
        return np.concatenate(states)  # type: ignore[return-value]


def top_of(log_probs: Float32[ndarray, "B V"], k: int) -> tuple[Float32[ndarray, "B k"], Int32[ndarray, "B k"]]:
    """Return the k largest of each row and their ids, best first; ties go to the lower id.

    Raises SettingError if k < 1, ModelFormatError if a row has NaN.
    """
    check_least("k", k, 1)
    k = min(k, log_probs.shape[1])
    best = np.empty((len(log_probs), k), np.int32)
    for row, out in zip(log_probs, best, strict=True):
        threshold = np.partition(row, len(row) - k)[len(row) - k]
        candidates = np.flatnonzero(row >= threshold)  # ascending, so that a stable sort keeps lower ids first
        if len(candidates) < k:
            raise ModelFormatError(NAN_MESSAGE)
        out[:] = candidates[np.argsort(-row[candidates], kind="stable")[:k]]
    return np.take_along_axis(log_probs, best, axis=1), best


def draw_of(
    log_probs: Float32[ndarray, "B V"], uniforms: Float64[ndarray, " B"], banned: Sequence[int] = ()
) -> tuple[Float32[ndarray, " B"], Int32[ndarray, " B"]]:
    """Draw a token for each row by inverting the cumulative distribution over ids; return its log-probability, and its
    id.

    Raises SettingError if no token is left to draw, ModelFormatError if a row has NaN.
    """
    banned_ids = check_draw(len(log_probs), uniforms, banned, log_probs.shape[1])
    probs = np.exp(log_probs, dtype=np.float64)
    probs[:, banned_ids] = 0
    tokens = sample_columns(probs, uniforms)
    return np.take_along_axis(log_probs, tokens[:, None], axis=1)[:, 0], tokens


def sample_columns(weights: Float64[ndarray, "B k"], uniforms: Float64[ndarray, " B"]) -> Int32[ndarray, " B"]:
    """Draw a column of each row in proportion to its weights: where their cumulative share passes the row's uniform.

    uniforms: in [0, 1). Raises SettingError if all weights of a row are 0, ModelFormatError if one is NaN.
    """
    cumulative = weights.cumsum(axis=1)
    totals = cumulative[:, -1]
    if np.isnan(totals).any():
        raise ModelFormatError(NAN_MESSAGE)
    if not (totals > 0).all():
        raise SettingError(NOTHING_TO_DRAW_MESSAGE)
    columns = [np.searchsorted(row, u, side="right") for row, u in zip(cumulative, uniforms * totals, strict=True)]
    return np.array(columns, np.int32)


def check_draw(
    rows: int, uniforms: Float64[ndarray, " B"], banned: Sequence[int], vocabulary_size: int
) -> Int32[ndarray, " banned"]:
    """Return the banned ids, ascending. Raises SettingError if the arguments of `LanguageModel.draw` are wrong."""
    if len(uniforms) != rows:
        raise SettingError(f"uniforms has {len(uniforms)} numbers for {rows} rows; give one for each row")
    if rows and not (uniforms.min() >= 0 and uniforms.max() < 1):
        raise SettingError("uniforms has a number outside [0, 1)")
    return _ascending(tuple(banned), vocabulary_size)


@lru_cache(256)
def _ascending(banned: tuple[int, ...], vocabulary_size: int) -> Int32[ndarray, " banned"]:
    """Return the ids in ascending order; draws of all steps share the array. Raises SettingError as `check_draw`."""
    banned_ids = np.unique(as_tokens(banned))
    check_tokens(banned_ids, vocabulary_size)
    return banned_ids.astype(np.int32)


def state_after(
    model: LanguageModel[State], stream: Int32[ndarray, " T"], positions: Int64[ndarray, " R"], reach: int
) -> State:
    """Return the state before some positions of a text, of a model that looks `reach` tokens back."""
    back = positions[:, None] + np.arange(-reach, 0)
    read = np.where(back < 0, END, stream[np.maximum(back, 0)]).astype(np.int32)  # (R, reach)
    state = model.select(model.start([np.empty(0, np.int32)]), np.zeros(len(positions), np.int32))
    for tokens in read.T:
        state = model.advance(state, np.ascontiguousarray(tokens))
    return state


def check_log_probs(log_probs: Float32[ndarray, " T"] | Float32[ndarray, "B V"]) -> None:
    """Raise ModelFormatError if one is NaN, or so far above 0 that rounding cannot explain it."""
    if log_probs.size and not (largest := log_probs.max()) <= _LARGEST_LOG_PROB:  # true for NaN, too
        raise ModelFormatError(
            f"the model gives a log-probability of {largest}; expected at most 0. Its file is damaged: "
            "try chainrule verify, or train the model again"
        )


def check_savable(name: str, array: ndarray) -> None:
    """Raise EstimationError if an array of a model about to be saved has NaN: nobody could use that model."""
    if any(map(has_nan, parts_released(array) if array.ndim == 1 else (array,))):
        raise EstimationError(
            f"the model has NaN in its {name}, so it is not saved: its settings do not suit its text, or the models "
            "that it was made from are damaged; make it again with other ones"
        )
