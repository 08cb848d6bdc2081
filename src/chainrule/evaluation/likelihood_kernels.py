"""Compiled counts of texts and their tokens, for `likelihood`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.protocol import END

Array = NDArray[Any]


@kernel
def count_text(text: Array, white: Array) -> tuple[int, int, int]:
    """Return the number of runs of bytes that are not white, of characters, and of line feeds. white: by byte."""
    words, characters, lines, was_white = 0, 0, 0, True
    for byte in text:
        is_white = white[byte]
        words += was_white and not is_white
        characters += byte & 0xC0 != 0x80
        lines += byte == 10
        was_white = is_white
    return words, characters, lines


@kernel
def add_tokens(
    ids: Array,
    stops: Array,
    closed: Array,
    total: Array,
    lengths: Array,
    ends: bool,
    nats: Array,
    sizes: Array,
    matched: Array,
) -> tuple[int, int]:
    """Add up cost and bytes of tokens by the position in their documents, see `Breakdown`, and count their lengths.

    lengths: may be empty. ends: whether </s> counts. Returns how many tokens count, and how many of these are
    impossible.
    """
    tokens, impossible, before, position, group = 0, 0, 0, 0, 0
    for i in range(ids.size):
        position += 1
        if position >> group > 0 and group + 1 < nats.size:
            group += 1
        if ends or ids[i] != END:
            tokens += 1
            impossible += closed[i] == -np.inf
            nats[group] -= total[i]
            sizes[group] += stops[i] - before
            if lengths.size > 0:
                matched[lengths[i]] += 1
        before = stops[i]
        if ids[i] == END:
            position = group = 0
    return tokens, impossible
