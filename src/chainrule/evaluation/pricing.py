"""What every token of a text costs, so that the costs of all texts sum to one.

A model gives <unk> the probability of one unseen type, as KenLM does, or of all of them, as a model that has seen <unk>
in training does. The speller says how many unseen types U there are (1 in the second case), and with them

    P'(w | h) = P(w | h) / Z(h),    P'(s | h) = U P(<unk> | h) / Z(h) P(s | unknown),    Z(h) = 1 + (U - 1) P(<unk> | h)

is a distribution over all known tokens w and unknown ones s. Perplexity is told without this, as everyone reports it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from chainrule.protocol import END, UNKNOWN, Scorer
from chainrule.text.tokenizer import documents_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from jaxtyping import Bool, Float32, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.text.vocabulary import Encoded


class Priced(Scorer, Protocol):
    """What measuring asks of a language model."""

    def unknown_log_probs(
        self,
        sequences: Sequence[Int32[ndarray, " T"]],
        *,
        prefixes: Sequence[Int32[ndarray, " prefix"]] | None = None,
        end: bool = True,
    ) -> list[Float32[ndarray, " T"]]: ...


class Speller(Protocol):
    name: str

    @property
    def unseen_types(self) -> int: ...

    def log_probs(self, tokens: Sequence[bytes]) -> Float64[ndarray, " T"]: ...


@dataclass(frozen=True)
class Prices:
    """Of the tokens of a stream, </s> included, in nats."""

    closed: Float64[ndarray, " T"]  # log P(token | context), <unk> for an unknown one
    unseen: Float64[ndarray, " T"]  # what counting all unseen types changes: -log Z, and log U for an unknown one
    spelling: Float64[ndarray, " T"]  # log P(spelling | unknown); 0 for a known one
    unknown: Bool[ndarray, " T"]

    @property
    def total(self) -> Float64[ndarray, " T"]:
        """What the token costs as a piece of the text."""
        return self.closed + self.unseen + self.spelling


def priced(model: Priced, speller: Speller, encoded: Encoded, given: Sequence[int] | None = None) -> Prices:
    """The prices of encoded documents, each by itself.

    given: how many tokens at the front of each document are conditioned on, and cost nothing; none, by default.
    """
    sequences = documents_of(encoded.ids)
    if given is None:
        closed, share = _joined(model.score(sequences)), _joined(model.unknown_log_probs(sequences))
        return priced_stream(encoded, speller, closed, share)
    prefixes = [sequence[:first] for sequence, first in zip(sequences, given, strict=True)]
    rest = [sequence[first:] for sequence, first in zip(sequences, given, strict=True)]
    is_priced = np.repeat(
        np.tile([False, True], len(rest)),
        [size for prefix, own in zip(prefixes, rest, strict=True) for size in (prefix.size, own.size + 1)],
    )
    closed, share = np.zeros(is_priced.size), np.full(is_priced.size, -np.inf)
    closed[is_priced] = _joined(model.score(rest, prefixes=prefixes))
    share[is_priced] = _joined(model.unknown_log_probs(rest, prefixes=prefixes))
    prices = priced_stream(encoded, speller, closed, share)
    unseen, spelling = (np.where(is_priced, column, 0.0) for column in (prices.unseen, prices.spelling))
    return Prices(closed, unseen, spelling, prices.unknown)


def priced_stream(
    encoded: Encoded,
    speller: Speller,
    closed: Float64[ndarray, " T"] | Float32[ndarray, " T"],
    log_share: Float64[ndarray, " T"] | Float32[ndarray, " T"],
) -> Prices:
    """The prices of a stream, from the log-probabilities of its tokens, and of <unk> at their places."""
    closed, log_share = closed.astype(np.float64), log_share.astype(np.float64)
    unknown = encoded.ids == UNKNOWN
    unseen = _unseen(log_share, unknown, speller.unseen_types)
    spelling = np.zeros(closed.size)
    places = np.flatnonzero(unknown)
    spelling[places] = _spelled(speller, [encoded.surface(place) for place in places.tolist()])
    return Prices(closed, unseen, spelling, unknown)


def priced_documents(
    model: Priced, speller: Speller, encoded: Encoded, *, given: Sequence[int] | None = None, end: bool = True
) -> tuple[Float64[ndarray, " documents"], Int64[ndarray, " documents"]]:
    """What each document costs in all, in nats (a log-probability), and how many tokens it has.

    given: as `priced` takes it. end: whether </s> is one of the tokens.
    """
    ends = np.flatnonzero(encoded.ids == END)
    if not ends.size:
        return np.empty(0), np.empty(0, np.int64)
    starts = np.concatenate([[0], ends[:-1] + 1])
    prices = priced(model, speller, encoded, given).total
    if not end:
        prices[ends] = 0
    return np.add.reduceat(prices, starts), ends + int(end) - starts


def _joined(rows: list[Any]) -> Float64[ndarray, " T"]:
    return np.concatenate(rows, dtype=np.float64) if rows else np.empty(0)


def _unseen(log_share: Float64[ndarray, " T"], unknown: Bool[ndarray, " T"], types: int) -> Float64[ndarray, " T"]:
    """log_share: log P(<unk> | context) at every place."""
    if types == 1:
        return np.zeros(log_share.size)
    with np.errstate(divide="ignore"):
        return np.where(unknown, np.log(types), 0.0) - np.log1p((types - 1) * np.exp(log_share))


def _spelled(speller: Speller, tokens: list[bytes]) -> Float64[ndarray, " T"]:
    """Each kind of token is spelled once."""
    kinds = list(dict.fromkeys(tokens))
    prices = dict(zip(kinds, speller.log_probs(kinds).tolist(), strict=True))
    return np.array([prices[token] for token in tokens], np.float64)
