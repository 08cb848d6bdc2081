"""Padding: a document begins after one <s>, or after order - 1 of them, so that every context is full.

The first <s> of a document is implicit and not in the stream; further ones are tokens that are never predicted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.protocol import BEGIN, END

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray


def padded(
    stream: Int32[ndarray, " tokens"], extra: int
) -> tuple[Int32[ndarray, " padded"], Bool[ndarray, " padded"] | slice]:
    """The stream with `extra` more <s> before each document, and a mask of its own tokens."""
    if extra == 0 or stream.size == 0:
        return stream, slice(None)
    starts = np.concatenate([[0], np.flatnonzero(stream[:-1] == END) + 1])
    positions = np.repeat(starts, extra)
    return np.insert(stream, positions, np.int32(BEGIN)), np.insert(np.ones(stream.size, np.bool_), positions, False)


def history_lengths(stream: Int32[ndarray, " tokens"], order: int) -> Int64[ndarray, " tokens"]:
    """The length of the longest n-gram that could end at each position: back to the document's <s>, at most `order`."""
    is_first = np.concatenate([[True], stream[:-1] == END])[: stream.size]
    starts = np.flatnonzero(is_first)
    positions = np.arange(stream.size) - starts[np.cumsum(is_first) - 1]
    return np.minimum(positions + 2, order)
