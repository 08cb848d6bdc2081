"""The compiled passes that restore text from tokens, with the position of every token.

`tokens` are separated by single spaces, with a newline, which is a token too, after each document; the last newline may
be missing. Each kernel fills `out`, and starts and stops by token, and returns the number of bytes and of tokens.
Neither needs more room than `tokens` has bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Bytes = NDArray[np.uint8]
Array = NDArray[Any]

AS_IT_IS = -1

_LINE_FEED, _BLANK = 10, 32
_NAMED_LENGTH = 6  # of <0xE9>


@kernel
def _is_at(mark: Bytes, tokens: Bytes, start: int, stop: int) -> bool:
    """Whether a non-empty mark begins at `start` and ends by `stop`."""
    if mark.size == 0 or start + mark.size > stop or tokens[start] != mark[0]:
        return False
    for j in range(1, mark.size):
        if tokens[start + j] != mark[j]:
            return False
    return True


@kernel
def restore_spaced(
    tokens: Bytes, before: Bytes, after: Bytes, out: Bytes, starts: Array, stops: Array
) -> tuple[int, int]:
    """Puts a space between tokens, unless a mark joins them.

    before, after: the mark at the start and at the end of a token; empty for none.
    """
    size = count = 0
    touches = True  # what is before: nothing in this document, or a token with a mark at its end
    i = 0
    while i < tokens.size:
        if tokens[i] == _LINE_FEED:
            out[size] = _LINE_FEED
            starts[count], stops[count] = size, size + 1
            size += 1
            count += 1
            touches = True
            i += 1
            continue
        if _is_at(before, tokens, i, tokens.size):
            i += before.size
            touches = True
        if not touches:
            out[size] = _BLANK
            size += 1
        start = i
        starts[count] = size
        while i < tokens.size and tokens[i] != _BLANK and tokens[i] != _LINE_FEED:
            out[size] = tokens[i]
            size += 1
            i += 1
        touches = i - after.size >= start and _is_at(after, tokens, i - after.size, i)
        if touches:
            size -= after.size
        stops[count] = size
        count += 1
        if i < tokens.size and tokens[i] == _BLANK:
            i += 1
    return size, count


@kernel
def restore_joined(
    tokens: Bytes, meanings: Array, drops_space: bool, names_bytes: bool, out: Bytes, starts: Array, stops: Array
) -> tuple[int, int]:
    """Concatenates tokens.

    meanings: the byte that a code point stands for, or AS_IT_IS; code points past its end stay as they are, too.
    drops_space: whether to drop a space that begins a document. names_bytes: whether the token <0xE9> is the byte E9.
    """
    size = count = 0
    at_start = True  # nothing of this document has been read yet
    i = 0
    while i < tokens.size:
        starts[count] = size
        if tokens[i] == _LINE_FEED:
            out[size] = _LINE_FEED
            size += 1
            i += 1
            at_start = True
        else:
            named = _named_byte(tokens, i) if names_bytes else -1
            if named >= 0:
                out[size] = named
                size += 1
                i += _NAMED_LENGTH
                at_start = False
            while i < tokens.size and tokens[i] != _BLANK and tokens[i] != _LINE_FEED:
                code, length = _code_point(tokens, i)
                meaning = meanings[code] if code < meanings.size else AS_IT_IS
                if meaning == AS_IT_IS:
                    for j in range(length):
                        out[size + j] = tokens[i + j]
                    size += length
                elif not (at_start and drops_space and meaning == _BLANK):
                    out[size] = meaning
                    size += 1
                at_start = False
                i += length
            if i < tokens.size and tokens[i] == _BLANK:
                i += 1
        stops[count] = size
        count += 1
    return size, count


@kernel
def _named_byte(tokens: Bytes, i: int) -> int:
    """The byte that the token <0xE9> at i names; -1 for any other token."""
    after = i + _NAMED_LENGTH
    if after > tokens.size or (after < tokens.size and tokens[after] != _BLANK and tokens[after] != _LINE_FEED):
        return -1
    if tokens[i] != 60 or tokens[i + 1] != 48 or tokens[i + 2] != 120 or tokens[i + 5] != 62:
        return -1
    high, low = _hexadecimal(tokens[i + 3]), _hexadecimal(tokens[i + 4])
    return 16 * high + low if high >= 0 and low >= 0 else -1


@kernel
def _hexadecimal(digit: int) -> int:
    if 48 <= digit <= 57:
        return np.int64(digit) - 48
    return np.int64(digit) - 55 if 65 <= digit <= 70 else np.int64(-1)


@kernel
def _code_point(tokens: Bytes, i: int) -> tuple[int, int]:
    """The code point at byte i, and its length in bytes; 0x10000 for all that take four, and for damaged ones."""
    first = np.int64(tokens[i])
    if first < 0x80:
        return first, 1
    if 0xC0 <= first < 0xE0 and i + 1 < tokens.size:
        return (first & 0x1F) << 6 | np.int64(tokens[i + 1]) & 0x3F, 2
    if 0xE0 <= first < 0xF0 and i + 2 < tokens.size:
        return (first & 0x0F) << 12 | (np.int64(tokens[i + 1]) & 0x3F) << 6 | np.int64(tokens[i + 2]) & 0x3F, 3
    return 0x10000, 1
