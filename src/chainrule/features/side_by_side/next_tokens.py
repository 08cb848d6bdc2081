"""The likeliest next tokens after a prompt, with a column for each of several models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.arguments import check_least
from chainrule.base.tables import text_table
from chainrule.errors import SettingError, prefix_errors
from chainrule.models.any_model import check_kind
from chainrule.models.files.tokenizers import splitting_difference
from chainrule.models.language_models import CausalModel
from chainrule.protocol import UNKNOWN
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.vocabulary import MARKER_TOKENS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

_SMALL = 1e-4  # smaller probabilities are printed with an exponent
_MARKERS = [marker.encode() for marker in MARKER_TOKENS]


class Prediction(NamedTuple):
    """What one model expects after a prompt. best: its likeliest tokens. log_probs: of all tokens, by id."""

    tokenizer: Tokenizer
    best: list[bytes]
    log_probs: Float32[ndarray, " V"]

    @property
    def entropy(self) -> float:
        """In nats."""
        log_probs = self.log_probs[np.isfinite(self.log_probs)].astype(np.float64)
        return float(-(np.exp(log_probs) * log_probs).sum())

    def log_prob(self, token: bytes) -> float | None:
        """Return log P of a token; None if the vocabulary lacks it."""
        if token in _MARKERS:
            return float(self.log_probs[_MARKERS.index(token)])
        number = int(self.tokenizer.vocabulary.encode(byte_array(token + b"\n")).ids[0])
        return None if number == UNKNOWN else float(self.log_probs[number])


class Row(NamedTuple):
    """A token, as the vocabulary spells it and as people read it, and its log-probability under each model.

    None: the model does not know the token.
    """

    token: bytes
    shown: str
    log_probs: tuple[float | None, ...]

    @property
    def probs(self) -> tuple[float | None, ...]:
        return tuple(None if log_prob is None else math.exp(log_prob) for log_prob in self.log_probs)


@dataclass(frozen=True)
class NextTokens:
    """The likeliest next tokens of several models; iterating over it gives a dictionary for each row.

    token: as the vocabularies spell it. prob_NAME and log_prob_NAME, in nats: under the model of that name. Both are
    None if the model does not know the token, which is then a part of its <unk>; log_prob is None if prob is 0.
    """

    names: tuple[str, ...]
    rows: tuple[Row, ...]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.to_records())

    def to_records(self) -> list[dict[str, Any]]:
        """Return all rows."""
        return [self._record(row) for row in self.rows]

    def as_json(self) -> list[dict[str, Any]]:
        """Return all rows, as `to_records`."""
        return self.to_records()

    def _record(self, row: Row) -> dict[str, Any]:
        record: dict[str, Any] = {"token": row.token.decode(errors="replace")}
        for name, log_prob, prob in zip(self.names, row.log_probs, row.probs, strict=True):
            record |= {f"prob_{name}": prob, f"log_prob_{name}": log_prob if prob else None}
        return record

    def __str__(self) -> str:
        return text_table(["token", *self.names], [[row.shown, *map(_cell, row.probs)] for row in self.rows])

    def notes(self) -> Iterator[str]:
        """Yield how many of the tokens each model does not know."""
        for name, log_probs in zip(self.names, zip(*(row.log_probs for row in self.rows), strict=True), strict=True):
            if number := log_probs.count(None):
                which = "one of these tokens, which is" if number == 1 else f"{number:,} of these tokens, which are"
                yield f"{name} does not know {which} a part of its <unk>"


def _cell(prob: float | None) -> str:
    if prob is None:
        return "unknown"
    return f"{prob:.2e}" if 0 < prob < _SMALL else f"{prob:.6f}"


def next_tokens(models: Mapping[str, CausalModel], prompt: str = "", top: int = 10) -> NextTokens:
    """Return the likeliest next tokens after a prompt, with the probabilities that several models give them.

    models: by name; they must cut texts into tokens in the same way, while their vocabularies may differ. The rows are
    the `top` tokens of each model, in the order of the first one. Raises SettingError, MarkerError.

    good:  print(chainrule.next_tokens({"kneser-ney": model, "laplace": other}, "the king of"))
    """
    if not models:
        raise SettingError("there is no model; give at least one, by name")
    checked = {name: check_kind(model, CausalModel) for name, model in models.items()}
    check_rows({name: model.tokenizer for name, model in checked.items()})
    predictions = {}
    for name, model in checked.items():
        with prefix_errors(name):
            predictions[name] = predict(model, prompt, top)
    return side_by_side(predictions)


def predict(model: CausalModel, prompt: str, top: int) -> Prediction:
    """Return what a model expects after a prompt. Raises SettingError, MarkerError."""
    check_least("top", top, 1)
    engine, vocabulary = model.language_model, model.tokenizer.vocabulary
    state = engine.start([model.tokenizer.encode_texts([prompt]).ids[:-1]])
    [values], [tokens] = engine.top(state, top)
    best = [vocabulary.token_bytes(token) for token in tokens[np.isfinite(values)].tolist()]
    return Prediction(model.tokenizer, best, engine.next_log_probs(state)[0])


def side_by_side(predictions: Mapping[str, Prediction]) -> NextTokens:
    """Return the table of what several models expect after the same prompt. Raises SettingError."""
    own = [*predictions.values()]
    check_rows({name: prediction.tokenizer for name, prediction in predictions.items()})
    tokens = [*dict.fromkeys(token for prediction in own for token in prediction.best)]
    shown = own[0].tokenizer.read_tokens(tokens)
    rows = [
        Row(token, text, tuple(prediction.log_prob(token) for prediction in own))
        for token, text in zip(tokens, shown, strict=True)
    ]
    return NextTokens(tuple(predictions), tuple(sorted(rows, key=_likeliest_first)))


def _likeliest_first(row: Row) -> list[float]:
    return [math.inf if log_prob is None else -log_prob for log_prob in row.log_probs]


def check_rows(tokenizers: Mapping[str, Tokenizer]) -> None:
    """Check that the tokens of models can share rows. Raises SettingError."""
    (first, reference), *others = tokenizers.items()
    for name, tokenizer in others:
        if difference := splitting_difference(reference, tokenizer):
            raise SettingError(
                f"{first} and {name} cut texts into different tokens, which cannot share rows: {difference} "
                f"(--tokenizer), or look at one model at a time"
            )
