"""What each token, word or character of a text costs, wherever the tokenizer cut it.

Every token's price goes to one place, so the units of a document add up to the document:

    words       runs of anything but ASCII white space. A token belongs to the word that its last visible byte is in, so
                white space at its front belongs to the next word; one of white space alone belongs to the word behind.
                A token that spans several words is charged to the last of them.
    characters  code points. A token's price is shared evenly among its bytes and those of the white space before it, so
                it is exact where a token is a character or a byte, and no more than a picture of it elsewhere.

The end of a document, </s>, is a unit of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Bool, Float64, Int32, Int64, UInt8
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


def units(ids: Int32[ndarray, " tokens"], prices: Prices, aligned: Alignment, by: By) -> Units:
    """The units of some documents. ids: of their tokens; aligned: the places of these."""
    if by == "tokens":
        return _tokens(ids, prices, aligned)
    return _words(ids, prices, aligned) if by == "words" else _characters(ids, prices, aligned)


def is_white(text: UInt8[ndarray, " bytes"]) -> Bool[ndarray, " bytes"]:
    """ASCII white space and NUL."""
    return (text == 32) | ((text >= 9) & (text <= 13)) | (text == 0)


def _tokens(ids: Int32[ndarray, " tokens"], prices: Prices, aligned: Alignment) -> Units:
    documents = np.concatenate([[0], np.flatnonzero(ids == END) + 1])
    return Units(aligned.starts, aligned.stops, prices.closed, prices.total, prices.unknown, documents)


def _words(ids: Int32[ndarray, " tokens"], prices: Prices, aligned: Alignment) -> Units:
    text = aligned.text
    visible = ~is_white(text)
    edges = np.flatnonzero(np.diff(visible.astype(np.int8), prepend=0, append=0))
    ends = aligned.stops[ids == END] - 1
    starts, stops = np.concatenate([edges[::2], ends]), np.concatenate([edges[1::2], ends + 1])
    order = np.argsort(starts, kind="stable")
    starts, stops = starts[order], stops[order]
    last_visible = np.maximum.accumulate(np.where(visible, np.arange(text.size), -1))
    last = last_visible[np.maximum(aligned.stops - 1, 0)]
    inside = last >= aligned.starts
    owner = np.where(
        inside, np.searchsorted(starts, last, side="right") - 1, np.searchsorted(starts, aligned.starts, side="left")
    )

    def summed(values: Float64[ndarray, " tokens"]) -> Float64[ndarray, " units"]:
        return np.bincount(owner, weights=values, minlength=starts.size)

    documents = np.concatenate([[0], np.searchsorted(starts, ends) + 1])
    unknown = summed(prices.unknown.astype(np.float64)) > 0
    return Units(starts, stops, summed(prices.closed), summed(prices.total), unknown, documents)


def _characters(ids: Int32[ndarray, " tokens"], prices: Prices, aligned: Alignment) -> Units:
    text = aligned.text
    first = np.concatenate([[0], aligned.stops[:-1]])  # with the white space before the token
    sizes = aligned.stops - first
    begins = np.flatnonzero((text & 0xC0) != 0x80)

    def summed(values: Float64[ndarray, " tokens"]) -> Float64[ndarray, " units"]:
        shares = np.repeat(values / np.maximum(sizes, 1), sizes)
        empty = np.flatnonzero(sizes == 0)
        np.add.at(shares, first[empty], values[empty])
        return np.add.reduceat(shares, begins) if begins.size else np.empty(0)

    stops = np.append(begins[1:], text.size)
    documents = np.concatenate([[0], np.searchsorted(begins, aligned.stops[ids == END])])
    unknown = summed(prices.unknown.astype(np.float64)) > 0
    return Units(begins, stops, summed(prices.closed), summed(prices.total), unknown, documents)
