"""The compiled pass that writes subword pieces as tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import kernel

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

_LINE_FEED, _BLANK = 10, 32


@kernel
def write_pieces(pieces: Array, lengths: Array, pool: Bytes, offsets: Array, out: Bytes) -> int:
    """Writes documents of `lengths` pieces each, a space between pieces and a newline after each document.

    Piece p is pool[offsets[p]:offsets[p + 1]]. Returns how many bytes of `out` were used.
    """
    size = place = 0
    for length in lengths:
        for i in range(place, place + length):
            if i > place:
                out[size] = _BLANK
                size += 1
            for j in range(offsets[pieces[i]], offsets[pieces[i] + 1]):
                out[size] = pool[j]
                size += 1
        out[size] = _LINE_FEED
        size += 1
        place += length
    return size
