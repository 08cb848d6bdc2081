"""The words of a text, whatever its tokens are: runs of anything but ASCII white space; and the tokens of each.

A token belongs to the word that its last visible byte is in, so white space at its front belongs to the next word; one
of white space alone belongs to the word behind, one that spans several words to the last of them. The end of a
document, </s>, is a word of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Bool, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.restoring import Alignment


class Words(NamedTuple):
    """Places are bytes of the aligned text; document i has the words documents[i] .. documents[i + 1], its end last."""

    starts: Int64[ndarray, " words"]
    stops: Int64[ndarray, " words"]
    of_tokens: Int64[ndarray, " tokens"]  # which word each token belongs to; it never falls
    documents: Int64[ndarray, " documents+1"]


def words_of(ids: Int32[ndarray, " tokens"], aligned: Alignment) -> Words:
    """The words of some documents. ids: of their tokens; aligned: the places of these."""
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
    of_tokens = np.where(
        inside, np.searchsorted(starts, last, side="right") - 1, np.searchsorted(starts, aligned.starts, side="left")
    )
    return Words(starts, stops, of_tokens, np.concatenate([[0], np.searchsorted(starts, ends) + 1]))


def is_white(text: UInt8[ndarray, " bytes"]) -> Bool[ndarray, " bytes"]:
    """ASCII white space and NUL."""
    return (text == 32) | ((text >= 9) & (text <= 13)) | (text == 0)
