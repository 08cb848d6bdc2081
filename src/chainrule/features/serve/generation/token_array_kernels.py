"""Writes arrays of log-probabilities as JSON, from names and numbers that are JSON already.

Legend: R texts, T tokens of all texts, k alternatives in the place of each, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import eight_bytes, put_eight_bytes
from chainrule.base.jit import kernel

Bytes = NDArray[np.uint8]
Array = NDArray[Any]

SPARE = 7
MOST_OF_TOKEN = 48  # bytes for a token besides names and numbers: commas, braces, colons, "null" twice, an offset
MOST_OF_ALTERNATIVE = 2  # for the colon and the comma

_COMMA, _COLON, _OPEN, _CLOSE, _ZERO = ord(","), ord(":"), ord("{"), ord("}"), ord("0")


@kernel
def write_arrays(
    fields: Bytes,
    field_begins: Array,
    cuts: Array,
    unknown: Array,
    ids: Array,
    others: Array,
    names: Bytes,
    name_begins: Array,
    name_ends: Array,
    numbers: Bytes,
    number_begins: Array,
    offsets: Array,
    out: Bytes,
    ends: Array,
) -> None:
    """Write four arrays for each text, one after the other: the names of its tokens, their log-probabilities, those
    with the alternatives to each token, and the offsets.

    fields, field_begins: "null", then the JSON before each array, and after the last. cuts: (R+1,), where texts begin.
    unknown: (R,), how many of a text's first log-probabilities are null. others: (T, k), ids. name_begins, name_ends:
    (V,). numbers, number_begins: log-probabilities with a byte between two of them, first those of the T tokens, then
    those of the T * k alternatives. ends: (R,), where each text's arrays end in `out`, which has room. Bytes are copied
    by eights: `fields`, `names`, `numbers` and `out` have SPARE more.
    """
    at = 0
    count, k = ids.size, others.shape[1]
    for text in range(ends.size):
        first, last = cuts[text], cuts[text + 1]
        known = first + unknown[text]
        at = _copied(fields, field_begins[1], field_begins[2], out, at)
        for i in range(first, last):
            at = _separated(i > first, out, at)
            at = _copied(names, name_begins[ids[i]], name_ends[ids[i]], out, at)
        at = _copied(fields, field_begins[2], field_begins[3], out, at)
        for i in range(first, last):
            at = _separated(i > first, out, at)
            if i < known:
                at = _copied(fields, field_begins[0], field_begins[1], out, at)
            else:
                at = _copied(numbers, number_begins[i], number_begins[i + 1] - 1, out, at)
        at = _copied(fields, field_begins[3], field_begins[4], out, at)
        for i in range(first, last):
            at = _separated(i > first, out, at)
            if i < known:
                at = _copied(fields, field_begins[0], field_begins[1], out, at)
                continue
            out[at] = _OPEN
            at += 1
            for j in range(k):
                if others[i, j] != ids[i]:
                    at = _copied(names, name_begins[others[i, j]], name_ends[others[i, j]], out, at)
                    out[at] = _COLON
                    number = count + i * k + j
                    at = _copied(numbers, number_begins[number], number_begins[number + 1] - 1, out, at + 1)
                    out[at] = _COMMA
                    at += 1
            at = _copied(names, name_begins[ids[i]], name_ends[ids[i]], out, at)
            out[at] = _COLON
            at = _copied(numbers, number_begins[i], number_begins[i + 1] - 1, out, at + 1)
            out[at] = _CLOSE
            at += 1
        at = _copied(fields, field_begins[4], field_begins[5], out, at)
        for i in range(first, last):
            at = _separated(i > first, out, at)
            at = _digits(offsets[i], out, at)
        at = _copied(fields, field_begins[5], field_begins[6], out, at)
        ends[text] = at


@kernel
def _copied(pieces: Bytes, first: int, last: int, out: Bytes, at: int) -> int:
    """Copy pieces[first:last], eight bytes at a time; return where the copy ends."""
    for j in range(0, last - first, 8):
        put_eight_bytes(out, at + j, eight_bytes(pieces, first + j))
    return at + last - first


@kernel
def _separated(follows: bool, out: Bytes, at: int) -> int:
    """Write a comma, unless the next item is the first."""
    if follows:
        out[at] = _COMMA
        return at + 1
    return at


@kernel
def _digits(number: int, out: Bytes, at: int) -> int:
    """Write a whole number, which is not negative."""
    size, rest = 1, number // 10
    while rest:
        size += 1
        rest //= 10
    rest = number
    for j in range(size):
        out[at + size - 1 - j] = _ZERO + rest % 10
        rest //= 10
    return at + size
