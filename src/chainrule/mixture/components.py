"""What all mixtures share: components that advance together, and the token before each position of a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.token_checks import as_tokens
from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.protocol import LanguageModel


class MixtureState(NamedTuple):
    """parts: the state of each component. previous: the last token of each row."""

    parts: tuple[Any, ...]
    previous: Int32[ndarray, " B"]


@dataclass(frozen=True)
class Components:
    """Language models over one vocabulary, each with the name of its family."""

    families: tuple[str, ...]
    models: tuple[LanguageModel[Any], ...]

    @property
    def vocabulary_size(self) -> int:
        return self.models[0].vocabulary_size

    def start(self, prefixes: Sequence[Int32[ndarray, " prefix"]]) -> MixtureState:
        """As `LanguageModel.start`."""
        parts = tuple(model.start(prefixes) for model in self.models)
        return MixtureState(parts, _last(prefixes))

    def rows(self, state: MixtureState) -> list[Float32[ndarray, "B V"]]:
        """The distribution of each component."""
        return [model.next_log_probs(part) for model, part in zip(self.models, state.parts, strict=True)]

    def advance(self, state: MixtureState, tokens: Int32[ndarray, " B"]) -> MixtureState:
        """As `LanguageModel.advance`; after </s>, each component starts the next document in its own way."""
        parts = tuple(model.advance(part, tokens) for model, part in zip(self.models, state.parts, strict=True))
        return MixtureState(parts, as_tokens(tokens).astype(np.int32))

    def select(self, state: MixtureState, rows: Int32[ndarray, " new_B"]) -> MixtureState:
        """As `LanguageModel.select`."""
        parts = tuple(model.select(part, rows) for model, part in zip(self.models, state.parts, strict=True))
        return MixtureState(parts, state.previous[rows])

    def join(self, states: Sequence[MixtureState]) -> MixtureState:
        """As `LanguageModel.join`."""
        by_model = zip(*(state.parts for state in states), strict=True)
        parts = tuple(model.join(own) for model, own in zip(self.models, by_model, strict=True))
        return MixtureState(parts, np.concatenate([state.previous for state in states]))


def previous_tokens(
    sequences: Sequence[Int32[ndarray, " T"]],
    prefixes: Sequence[Int32[ndarray, " prefix"]] | None,
    *,
    end: bool,
) -> Int32[ndarray, " scored"]:
    """The token before each scored token of all sequences; <s> if there is none."""
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
    """The scores of `score_stream`, and log P(<unk> | context) at the same positions."""
    both = getattr(model, "score_stream_with_unknown", None)  # of models that may see across the ends of documents
    if both is not None:
        scores: tuple[Float32[ndarray, " T"], Float32[ndarray, " T"]] = both(stream)
        return scores
    documents = np.split(stream, np.flatnonzero(as_tokens(stream) == END) + 1)
    shares = model.unknown_log_probs([document[:-1] for document in documents if len(document)])
    return model.score_stream(stream), join(shares)


def split_as(
    values: Float32[ndarray, " scored"], rows: Sequence[Float32[ndarray, " T"]]
) -> list[Float32[ndarray, " T"]]:
    """Splits an array into pieces as long as those of `rows`: the inverse of `join`."""
    return np.split(values, np.cumsum([row.size for row in rows])[:-1]) if rows else []


def join(rows: Sequence[Float32[ndarray, " T"]]) -> Float32[ndarray, " scored"]:
    """Concatenates rows, of which there may be none."""
    return np.concatenate(rows) if rows else np.empty(0, np.float32)


def _last(prefixes: Sequence[Int32[ndarray, " prefix"]]) -> Int32[ndarray, " B"]:
    return np.array([as_tokens(prefix)[-1] if len(prefix) else BEGIN for prefix in prefixes], np.int32)
