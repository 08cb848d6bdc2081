"""The compiled passes around a subword tokenizer: cutting text into chunks, and writing pieces as tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.text.splitter_kernels import SPACE, code_point

Array = NDArray[Any]
Bytes = NDArray[np.uint8]

TAG, SPACE_INSIDE, LINE_FEED_INSIDE = 0xFC, 0xFD, 0xFE  # bytes that UTF-8 does not have

_LINE_FEED, _BLANK = 10, 32


@kernel
def write_pieces(pieces: Array, lengths: Array, pool: Bytes, offsets: Array, out: Bytes) -> int:
    """Writes documents of `lengths` pieces each, a space between pieces and a newline after each document.

    A piece is pool[offsets[piece]:offsets[piece + 1]]; empty ones are skipped. Returns the number of bytes written.
    """
    size = place = 0
    for length in lengths:
        started = False
        for i in range(place, place + length):
            first, last = offsets[pieces[i]], offsets[pieces[i] + 1]
            if started and last > first:
                out[size] = _BLANK
                size += 1
            for j in range(first, last):
                out[size] = pool[j]
                size += 1
            started = started or last > first
        out[size] = _LINE_FEED
        size += 1
        place += length
    return size


@kernel
def cut_at_spaces(text: Bytes, document_end: int, classes: Bytes, out: Bytes) -> int:
    """Splits before each single space between visible characters; the space belongs to the chunk after it.

    Chunks are written as tokens, with TAG in front, so that none is a marker, and with other bytes for spaces and
    newlines inside. `out` needs 3 bytes for each of `text`. Returns the number of bytes written.
    """
    size = 0
    started = False  # something of this document has been written
    visible = False  # the last character was no white space
    i = 0
    while i < text.size:
        byte = text[i]
        if byte == document_end:
            out[size] = _LINE_FEED
            size += 1
            started = visible = False
            i += 1
            continue
        if byte == _BLANK and visible and i + 1 < text.size and text[i + 1] != document_end:
            visible = classes[code_point(text, i + 1)[0]] != SPACE
            if visible:
                out[size] = _BLANK
                out[size + 1] = TAG
                size += 2
        elif not started:
            out[size] = TAG
            size += 1
        started = True
        if byte == _BLANK or byte == _LINE_FEED:
            out[size] = SPACE_INSIDE if byte == _BLANK else LINE_FEED_INSIDE
            size += 1
            visible = False
            i += 1
            continue
        code, length = code_point(text, i)
        visible = classes[code] != SPACE
        for j in range(length):
            out[size + j] = text[i + j]
        size += length
        i += length
    return size
