"""The n-grams of words' characters, as fastText hashes them to buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

_START, _FNV_FACTOR = np.uint32(2166136261), np.uint32(16777619)  # FNV-1a's
_SIGN, _UPPER = np.uint32(0x80), np.uint32(0xFFFFFF00)


@kernel
def ngram_buckets(text: Array, start: int, stop: int, shortest: int, longest: int, buckets: int, found: Array) -> int:
    """The buckets of the n-grams of one word, which stands with < before it and > after it in text[start:stop].

    N-grams are of whole UTF-8 characters; single ones at the edges, which are < and >, are left out. The hash takes a
    byte as a signed number, as fastText does, so that those from 128 on flip the upper bits, too. Returns how many.
    """
    count = 0
    for i in range(start, stop):
        if text[i] & 0xC0 == 0x80:
            continue
        hashed, j, length = _START, i, 1
        while j < stop and length <= longest:
            while True:
                byte = np.uint32(text[j])
                hashed = np.uint32(hashed ^ (byte | _UPPER if byte & _SIGN else byte)) * _FNV_FACTOR
                j += 1
                if j == stop or text[j] & 0xC0 != 0x80:
                    break
            is_edge = length == 1 and (i == start or j == stop)
            if length >= shortest and not is_edge:
                found[count] = np.int64(np.uint32(hashed)) % buckets
                count += 1
            length += 1
    return count
