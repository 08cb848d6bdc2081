"""The waist: what a language model is.

Models stand on one side, decoders and measurements on the other, and NumPy goes between.
Dimension legend of the whole project: B batch (rows), T time (tokens), V vocabulary, D model width, H heads, N n-gram
order. All log-probabilities are natural logarithms (nats).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from chainrule.errors import EstimationError, ModelFormatError, SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int, Int32
    from numpy import ndarray

UNKNOWN, BEGIN, END = 0, 1, 2  # the ids of <unk>, <s> and </s> in every vocabulary
_LARGEST_LOG_PROB = (
    88  # nats; rounding may pass 0 by a little, an odd back-off by more, and exp of this is still a float32
)

NAN_FOUND = "a distribution of the model holds NaN or words in no order; its file is damaged: try chainrule verify"
NOTHING_TO_DRAW = "there is no token to draw: each is banned or has no probability; ban fewer"

State = TypeVar("State")


class Scorer(Protocol):
    """What can put a number on a known text. Not always a distribution: stupid backoff is a Scorer and no more."""

    def score(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """The log-probability of each token, given <s>, the row's prefix and the tokens before it.

        sequences: ids without markers. prefixes: one for each sequence, conditioned on and not scored.
        end: whether </s> is predicted after each sequence; then its row is one longer than the sequence.
        Raises SettingError where prefixes and sequences differ in number, or an id is outside the vocabulary.
        """

    def score_stream(self, stream: Int32[ndarray, " tokens"]) -> Float32[ndarray, " tokens"]:
        """What `score` gives the documents of a stream, </s> after each, one after the other: quick for many of them.

        Raises SettingError where an id is outside the vocabulary.
        """


class StreamScores(NamedTuple):
    """What n-gram models say of the tokens of a stream."""

    log_probs: Float32[ndarray, " tokens"]
    lengths: Int[ndarray, " tokens"]  # of the n-grams that gave them: 1 where nothing longer was known
    unknown_log_probs: Float32[ndarray, " tokens"]  # log P(<unk> | context) at their places


class LanguageModel(Scorer, Protocol[State]):
    """P(w1) P(w2|w1) P(w3|w1,w2) ..., a row for each sequence that grows.

    State goes in and comes out; the model keeps none.

    good:  state = model.advance(model.select(state, parents), tokens)
    bad:   model.advance(state, tokens); model.next_log_probs(state)      # `advance` may have reused what `state` held
    """

    vocabulary_size: int
    end: int  # the id of </s>

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> State:
        """The state after <s> and each prefix; a row each."""

    def next_log_probs(self, state: State) -> Float32[ndarray, "rows vocab"]:
        """log P(w | row) for every w. Each row sums to one; <s> is -inf, since it is never predicted."""

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " tokens"]]:
        """log P(<unk> | context) at every place where `score`, asked the same, gives log P(token | context)."""

    def top(self, state: State, k: int) -> tuple[Float32[ndarray, "rows k"], Int32[ndarray, "rows k"]]:
        """The k likeliest next tokens of each row with their log-probabilities, best first; equal ones by lower id."""

    def draw(
        self, state: State, uniforms: Float64[ndarray, " rows"], banned: Sequence[int] = ()
    ) -> tuple[Float32[ndarray, " rows"], Int32[ndarray, " rows"]]:
        """A token for each row from its distribution without the banned ids, with its log-probability under the whole.

        uniforms: numbers in [0, 1), where the distribution is inverted: the same number in the same row gives the same
        token. Raises SettingError where nothing is left to draw.
        """

    def advance(self, state: State, tokens: Int32[ndarray, " rows"]) -> State:
        """The state after one more token in each row; </s> starts the next document. Uses the given state up."""

    def select(self, state: State, rows: Int32[ndarray, " new_rows"]) -> State:
        """Copies, repeats or drops rows; the given state stays usable."""


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


class Embedder(Protocol):
    """What gives vectors to tokens: any network, a language model or not."""

    def vectors(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        layer: int | None = None,
        *,
        bfloat16: bool = False,
    ) -> list[Float32[ndarray, "tokens D"]]:
        """A vector for each token of each sequence, in its context.

        sequences: ids without markers. layer: 0: of the tokens alone, whatever stands around them; from 1 on: what that
        layer gives; None: the last. bfloat16: what the network computes in; what is given is float32. Raises
        SettingError where there is no such layer, or an id is outside the vocabulary.
        """

    def static_vectors(self) -> Float32[ndarray, "vocab D"]:
        """What layer 0 has for each token of the vocabulary."""


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


def check_prefixes(sequences: int, prefixes: Sequence[Int32[ndarray, " prefix"]] | None) -> None:
    """Raises SettingError where prefixes and sequences differ in number."""
    if prefixes is not None and len(prefixes) != sequences:
        raise SettingError(f"{len(prefixes)} prefixes for {sequences} sequences; give one to each")


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


def check_tokens(tokens: Int32[ndarray, " tokens"], vocabulary_size: int) -> None:
    """Raises SettingError where an id is no integer, or outside the vocabulary."""
    if tokens.size and tokens.dtype.kind not in "iu":
        raise SettingError(f"tokens are {tokens.dtype.name}; expected the integers that a tokenizer gives")
    if tokens.size and not (tokens.min() >= 0 and tokens.max() < vocabulary_size):
        worst = tokens.min() if tokens.min() < 0 else tokens.max()
        raise SettingError(f"there is no token {worst}: ids run from 0 to {vocabulary_size - 1}")


def check_savable(name: str, array: ndarray) -> None:
    """Raises EstimationError where an array of a model that is to be saved has NaN: nobody could use that model."""
    if array.dtype.kind == "f" and array.size and np.isnan(array.min()):  # of which a minimum is NaN, too
        raise EstimationError(
            f"the model has NaN, which is no number, in its {name}, so it is not saved: its settings do not suit its "
            "text, or what it was made of is damaged; make it again with others"
        )


def check_log_probs(log_probs: Float32[ndarray, " tokens"] | Float32[ndarray, "rows vocab"]) -> None:
    """Raises ModelFormatError where one is NaN, infinite, or so large that it comes from no probability."""
    if log_probs.size and not (largest := log_probs.max()) <= _LARGEST_LOG_PROB:  # NaN is not, either
        raise ModelFormatError(
            f"the model gives a log-probability of {largest}, which can be at most 0; its file is damaged: "
            "try chainrule verify, or make it again"
        )


def as_tokens(sequence: Sequence[int] | Int32[ndarray, " tokens"]) -> Int32[ndarray, " tokens"]:
    """A sequence of ids as an array; an empty one is of integers, too."""
    array = np.asarray(sequence)
    return array if array.size else array.astype(np.int32)
