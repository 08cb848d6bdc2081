"""What each token, word or character of a text costs, wherever the tokenizer cut it.

Every token's price goes to one place, so the units of a document add up to the document:

    words       as `chainrule.text.words` cuts them and says which token belongs to which.
    characters  code points. A token's price is shared evenly among its bytes and those of the white space before it, so
                it is exact where a token is a character or a byte, and no more than a picture of it elsewhere.

The end of a document, </s>, is a unit of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.protocol import END
from chainrule.text.words import words_of

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64
    from numpy import ndarray

    from chainrule.evaluation.pricing import Prices
    from chainrule.text.restoring import Alignment

By = Literal["tokens", "words", "characters"]


@dataclass(frozen=True)
class Units:
    """Places are bytes of the aligned text; document i has the units documents[i] .. documents[i + 1], its end last."""

    starts: Int64[ndarray, " units"]
    stops: Int64[ndarray, " units"]
    closed: Float64[ndarray, " units"]  # nats, <unk> for unknown tokens; see `Prices`
    total: Float64[ndarray, " units"]  # nats, as a piece of the text, spelling included
    unknown: Bool[ndarray, " units"]  # whether an unknown token is in it
    documents: Int64[ndarray, " documents+1"]


def units(ids: Int32[ndarray, " T"], prices: Prices, aligned: Alignment, by: By) -> Units:
    """The units of some documents. ids: of their tokens; aligned: the places of these."""
    if by == "tokens":
        return _tokens(ids, prices, aligned)
    return _words(ids, prices, aligned) if by == "words" else _characters(ids, prices, aligned)


def _tokens(ids: Int32[ndarray, " T"], prices: Prices, aligned: Alignment) -> Units:
    documents = np.concatenate([[0], np.flatnonzero(ids == END) + 1])
    return Units(aligned.starts, aligned.stops, prices.closed, prices.total, prices.unknown, documents)


def _words(ids: Int32[ndarray, " T"], prices: Prices, aligned: Alignment) -> Units:
    words = words_of(ids, aligned)

    def summed(values: Float64[ndarray, " T"]) -> Float64[ndarray, " units"]:
        return np.bincount(words.of_tokens, weights=values, minlength=words.starts.size)

    unknown = summed(prices.unknown.astype(np.float64)) > 0
    closed, total = summed(prices.closed), summed(prices.total)
    return Units(words.starts, words.stops, closed, total, unknown, words.documents)


def _characters(ids: Int32[ndarray, " T"], prices: Prices, aligned: Alignment) -> Units:
    text = aligned.text
    first = np.concatenate([[0], aligned.stops[:-1]])  # with the white space before the token
    sizes = aligned.stops - first
    begins = np.flatnonzero((text & 0xC0) != 0x80)

    def summed(values: Float64[ndarray, " T"]) -> Float64[ndarray, " units"]:
        shares = np.repeat(values / np.maximum(sizes, 1), sizes)
        empty = np.flatnonzero(sizes == 0)
        np.add.at(shares, first[empty], values[empty])
        return np.add.reduceat(shares, begins) if begins.size else np.empty(0)

    stops = np.append(begins[1:], text.size)
    documents = np.concatenate([[0], np.searchsorted(begins, aligned.stops[ids == END])])
    unknown = summed(prices.unknown.astype(np.float64)) > 0
    return Units(begins, stops, summed(prices.closed), summed(prices.total), unknown, documents)
