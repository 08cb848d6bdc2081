"""How a document begins: after one <s>, or after order - 1 of them, so that every context is full.

The engine knows one <s>, which is not in the stream. The others stand there as words that are never predicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray


def padded(
    stream: Int32[ndarray, " tokens"], more: int
) -> tuple[Int32[ndarray, " padded"], Bool[ndarray, " padded"] | slice]:
    """The stream with so many more <s> before each document, and where its own tokens are."""
    if more == 0 or stream.size == 0:
        return stream, slice(None)
    starts = np.concatenate([[0], np.flatnonzero(stream[:-1] == END) + 1])
    places = np.repeat(starts, more)
    return np.insert(stream, places, np.int32(BEGIN)), np.insert(np.ones(stream.size, np.bool_), places, False)


def history_lengths(stream: Int32[ndarray, " tokens"], order: int) -> Int64[ndarray, " tokens"]:
    """How long the longest n-gram is that could end at each place: back to the <s> of the document, or `order`."""
    is_first = np.concatenate([[True], stream[:-1] == END])[: stream.size]
    starts = np.flatnonzero(is_first)
    places = np.arange(stream.size) - starts[np.cumsum(is_first) - 1]
    return np.minimum(places + 2, order)
