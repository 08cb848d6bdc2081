"""What all mixtures share: components that advance together, and one meaning of <unk> in all of them.

In some models, P(<unk>) is the probability of a single unseen type, in others that of all of them (see
`evaluation/token_scores.py`). A model that expects U unseen types becomes one that expects U / r, for the same texts:

    P'(<unk> | h) = r P(<unk> | h) / Z(h),    P'(w | h) = P(w | h) / Z(h),    Z(h) = 1 + (r - 1) P(<unk> | h)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from chainrule.base.arguments import as_tokens, in_one_stream
from chainrule.base.distributions import ByDistributions
from chainrule.errors import ModelFormatError
from chainrule.protocol import BEGIN, END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.protocol import LanguageModel

    Sequences = Sequence[Int32[ndarray, " T"]]


class MixtureState(NamedTuple):
    """The state of a mixture. parts: the state of each component. previous: the last token of each row."""

    parts: tuple[Any, ...]
    previous: Int32[ndarray, " B"]


@runtime_checkable
class Witness(Protocol):
    """A model that says what it has seen of a context: three numbers, 0 where it does not know them.

    They are the length of the longest context that it has seen, how often it was seen, and how many different tokens
    followed it.
    """

    def evidence(self, state: Any) -> Float32[ndarray, "B 3"]:
        """Return the evidence for the context of each row."""

    def stream_evidence(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, "T 3"]:
        """Return the evidence for the context of each token of a stream, whose documents end with </s>."""


@dataclass(frozen=True)
class Components:
    """Language models over one vocabulary, each with the name of its family."""

    families: tuple[str, ...]
    models: tuple[LanguageModel[Any], ...]

    @property
    def vocabulary_size(self) -> int:
        return self.models[0].vocabulary_size

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> MixtureState:
        """Implement `LanguageModel.start`."""
        parts = tuple(model.start(prefixes) for model in self.models)
        return MixtureState(parts, _last(prefixes))

    def rows(self, state: MixtureState) -> list[Float32[ndarray, "B V"]]:
        """Return the distribution of each component."""
        return [model.next_log_probs(part) for model, part in zip(self.models, state.parts, strict=True)]

    def advance(self, state: MixtureState, tokens: Int32[ndarray, " B"]) -> MixtureState:
        """Implement `LanguageModel.advance`; after </s>, each component starts the next document in its own way."""
        parts = tuple(model.advance(part, tokens) for model, part in zip(self.models, state.parts, strict=True))
        return MixtureState(parts, as_tokens(tokens).astype(np.int32))

    def steps(
        self, sequences: Sequences, prefixes: Sequences | None, batch: int
    ) -> Iterator[tuple[Int64[ndarray, " B"], int, Int32[ndarray, " B"], MixtureState]]:
        """Go through texts a token at a time, </s> included, and yield the texts that are not over, the number of
        tokens that were read of each, the token that comes next, and the state before it.

        batch: how many texts go side by side.
        """
        sequences = [np.append(as_tokens(sequence), END).astype(np.int32) for sequence in sequences]
        for first in range(0, len(sequences), batch):
            texts = np.arange(first, min(first + batch, len(sequences)))
            state = self.start([np.empty(0, np.int32) if prefixes is None else prefixes[int(text)] for text in texts])
            step = 0
            while texts.size:
                tokens = np.array([sequences[text][step] for text in texts], np.int32)
                yield texts, step, tokens, state
                state, step = self.advance(state, tokens), step + 1
                left = np.flatnonzero([sequences[text].size > step for text in texts]).astype(np.int32)
                if left.size < texts.size:
                    texts, state = texts[left], self.select(state, left)

    def select(self, state: MixtureState, rows: Int32[ndarray, " new_B"]) -> MixtureState:
        """Implement `LanguageModel.select`."""
        parts = tuple(model.select(part, rows) for model, part in zip(self.models, state.parts, strict=True))
        return MixtureState(parts, state.previous[rows])

    def join(self, states: Sequence[MixtureState]) -> MixtureState:
        """Implement `LanguageModel.join`."""
        by_model = zip(*(state.parts for state in states), strict=True)
        parts = tuple(model.join(own) for model, own in zip(self.models, by_model, strict=True))
        return MixtureState(parts, np.concatenate([state.previous for state in states]))


def previous_tokens(
    sequences: Sequence[Int32[ndarray, " T"]],
    prefixes: Sequence[Int32[ndarray, " prefix"]] | None,
    *,
    end: bool,
) -> Int32[ndarray, " scored"]:
    """Return the token before each scored token of all sequences; <s> if there is none."""
    first = np.full(len(sequences), BEGIN, np.int32) if prefixes is None else _last(prefixes)
    parts: list[Int32[ndarray, " T"]] = []
    for before, sequence in zip(first, sequences, strict=True):
        parts += [np.array([before]), as_tokens(sequence)] if end else [np.array([before]), as_tokens(sequence)[:-1]]
        if not end and not len(sequence):
            parts[-2:] = []
    return np.concatenate([np.empty(0, np.int32), *parts], dtype=np.int32, casting="same_kind")


def stream_with_unknown(
    model: LanguageModel[Any], stream: Int32[ndarray, " T"]
) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
    """Return the scores of `score_stream`, and log P(<unk> | context) at the same positions."""
    both = getattr(model, "score_stream_with_unknown", None)  # of models that may see across the ends of documents
    if both is not None:
        scores: tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]] = both(stream)
        return scores
    documents = np.split(stream, np.flatnonzero(as_tokens(stream) == END) + 1)
    shares = model.unknown_log_probs([document[:-1] for document in documents if len(document)])
    return model.score_stream(stream), join(shares)


def stream_parts(
    models: Sequence[LanguageModel[Any]], stream: Int32[ndarray, " T"], size: int
) -> Iterator[tuple[Float32[ndarray, "part V"], ...]] | None:
    """Return the distributions of each model along a stream, `size` positions at a time; None where one cannot give
    them.
    """
    if not all(reads_streams(model) for model in models):
        return None
    return zip(*(_stream_rows(model, stream, size) for model in models), strict=True)


def text_parts(
    models: Sequence[LanguageModel[Any]], texts: Sequence[Int32[ndarray, " T"]], size: int
) -> Iterator[tuple[Float32[ndarray, "part V"], ...]] | None:
    """Return the parts of `stream_parts` for several texts, </s> included, one after the other, where no model reads
    over the end of a text.
    """
    if not all(reads_streams(model) for model in models):
        return None
    stream, _ = in_one_stream(texts, None, end=True)
    parts = [
        _stream_rows(model, stream, size) if (read := text_reader(model)) is None else read(texts, size)
        for model in models
    ]
    return zip(*parts, strict=True)


def reads_streams(model: LanguageModel[Any]) -> bool:
    """Return whether a model gives its distributions along a stream."""
    return hasattr(model.model if isinstance(model, RescaledUnknown) else model, "stream_rows")


def text_reader(model: Any) -> Callable[[Sequences, int], Iterator[Float32[ndarray, "part V"]]] | None:
    """Return `text_rows` of models that read a stream in another way than its texts."""
    if not isinstance(model, RescaledUnknown):
        return getattr(model, "text_rows", None)
    own = getattr(model.model, "text_rows", None)
    return None if own is None else lambda texts, size: map(model.adjust_rows, own(texts, size))


def _stream_rows(model: Any, stream: Int32[ndarray, " T"], size: int) -> Iterator[Float32[ndarray, "part V"]]:
    if isinstance(model, RescaledUnknown):
        return map(model.adjust_rows, _stream_rows(model.model, stream, size))
    rows: Iterator[Float32[ndarray, "part V"]] = model.stream_rows(stream, size)
    return rows


def split_as(
    values: Float32[ndarray, " scored"], rows: Sequence[Float32[ndarray, " T"]]
) -> list[Float32[ndarray, " T"]]:
    """Split an array into parts as long as those of `rows`: the inverse of `join`."""
    return np.split(values, np.cumsum([row.size for row in rows])[:-1]) if rows else []


def join(rows: Sequence[Float32[ndarray, " T"]]) -> Float32[ndarray, " scored"]:
    """Concatenate rows, of which there may be none."""
    return np.concatenate(rows) if rows else np.empty(0, np.float32)


def _last(prefixes: Sequence[Int32[ndarray, " prefix"]]) -> Int32[ndarray, " B"]:
    return np.array([as_tokens(prefix)[-1] if len(prefix) else BEGIN for prefix in prefixes], np.int32)


class RescaledUnknown(ByDistributions[Any]):
    """A language model with `ratio` times the odds of <unk>. The state is that of the model."""

    end = END

    def __init__(self, model: LanguageModel[Any], ratio: float) -> None:
        """Store the model and the ratio. Raises ModelFormatError."""
        if not (isinstance(ratio, int | float) and 1 <= ratio < math.inf):
            raise ModelFormatError(f"the unseen_ratio of <unk> is {ratio!r}; expected a number, 1 or more")
        self.model, self.ratio, self.vocabulary_size = model, float(ratio), model.vocabulary_size

    def score(self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True) -> list[ndarray]:
        """Implement `Scorer.score`."""
        scores = self.model.score(sequences, prefixes=prefixes, end=end)
        shares = self.model.unknown_log_probs(sequences, prefixes=prefixes, end=end)
        return [
            self._adjust(score, share, np.append(as_tokens(sequence), END)[: score.size] == UNKNOWN)
            for score, share, sequence in zip(scores, shares, sequences, strict=True)
        ]

    def score_stream(self, stream: Int32[ndarray, " T"]) -> Float32[ndarray, " T"]:
        """Implement `Scorer.score_stream`."""
        return self.score_stream_with_unknown(stream)[0]

    def score_stream_with_unknown(
        self, stream: Int32[ndarray, " T"]
    ) -> tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]]:
        """Return the log-probabilities of a stream's tokens, and of <unk> at their positions."""
        scores, share = stream_with_unknown(self.model, stream)
        everywhere = np.ones(share.size, np.bool_)
        return self._adjust(scores, share, as_tokens(stream) == UNKNOWN), self._adjust(share, share, everywhere)

    def unknown_log_probs(
        self, sequences: Sequences, *, prefixes: Sequences | None = None, end: bool = True
    ) -> list[ndarray]:
        """Implement `LanguageModel.unknown_log_probs`."""
        shares = self.model.unknown_log_probs(sequences, prefixes=prefixes, end=end)
        return [self._adjust(share, share, np.ones(share.size, np.bool_)) for share in shares]

    def start(self, prefixes: Sequences) -> Any:
        """Implement `LanguageModel.start`."""
        return self.model.start(prefixes)

    def next_log_probs(self, state: Any) -> Float32[ndarray, "B V"]:
        """Implement `LanguageModel.next_log_probs`."""
        return self.adjust_rows(self.model.next_log_probs(state))

    def adjust_rows(self, rows: Float32[ndarray, "B V"]) -> Float32[ndarray, "B V"]:
        """Return distributions of the model, with more for <unk>."""
        return self._adjust(rows, rows[:, [UNKNOWN]], np.arange(self.vocabulary_size) == UNKNOWN)

    def advance(self, state: Any, tokens: Int32[ndarray, " B"]) -> Any:
        """Implement `LanguageModel.advance`."""
        return self.model.advance(state, tokens)

    def select(self, state: Any, rows: Int32[ndarray, " new_B"]) -> Any:
        """Implement `LanguageModel.select`."""
        return self.model.select(state, rows)

    def join(self, states: Sequence[Any]) -> Any:
        """Implement `LanguageModel.join`."""
        return self.model.join(states)

    def _adjust(self, log_probs: ndarray, log_share: ndarray, unknown: ndarray) -> ndarray:
        """Return log-probabilities with more for <unk>.

        log_share: log P(<unk> | context) at each position. unknown: which positions are of <unk>.
        """
        odds = np.where(unknown, math.log(self.ratio), 0.0)
        log_total = np.log1p((self.ratio - 1) * np.exp(log_share, dtype=np.float64))
        adjusted: ndarray = (log_probs + (odds - log_total)).astype(np.float32)
        return adjusted
