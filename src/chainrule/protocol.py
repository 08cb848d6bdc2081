"""The waist: what a language model is.

Models stand on one side, decoders and measurements on the other, and NumPy goes between.
Dimension legend of the whole project: B batch (rows), T time (tokens), V vocabulary, D model width, H heads, N n-gram
order. All log-probabilities are natural logarithms (nats).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Float64, Int, Int32
    from numpy import ndarray

UNKNOWN, BEGIN, END = 0, 1, 2  # the ids of <unk>, <s> and </s> in every vocabulary


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
