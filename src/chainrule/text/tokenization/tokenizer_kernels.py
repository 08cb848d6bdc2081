"""The compiled passes of tokenizers: splitting valid UTF-8 into tokens, writing subword pieces, restoring text.

Each pass that splits returns the number of bytes written to `out`. Tokens are separated by single spaces, and each byte
`document_end` becomes a newline; the input ends with one.

In the passes that restore text, `tokens` are separated by single spaces, with a newline, which is a token too, after
each document; the last newline may be missing. Each kernel fills `out`, and the starts and stops by token, and returns
the number of bytes and of tokens. Neither needs more room than `tokens` has bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Bytes = NDArray[np.uint8]
Array = NDArray[Any]

SPACE, LETTER, DIGIT, EXTEND, CONNECTOR, NUMBER_CONNECTOR, ALONE = range(7)
DOCUMENT_START = 255  # no character class: nothing of this document has been written yet

_LINE_FEED, _BLANK = 10, 32
_JOINER, _REPLACEMENT = 0xFFED, 0xFFFD
_MARKERS = np.frombuffer(b"<s>  </s> <unk>", np.uint8).reshape(3, 5)
_MARKER_LENGTHS = np.array([3, 4, 5])
_PICTURES_FIRST, _PICTURES_LAST = 0x2400, 0x2420  # U+2400 + c is the picture of the control character c


@kernel
def rewrite_whitespace(text: Bytes, document_end: int, out: Bytes) -> int:
    """Squeeze white space. `out` needs no more bytes than `text`."""
    size = 0
    pending = False  # a space is due before the next token
    started = False  # a token of this document has been written
    for i in range(text.size):
        byte = text[i]
        if byte == document_end:
            out[size] = _LINE_FEED
            size += 1
            pending = started = False
        elif byte == _BLANK or byte == _LINE_FEED or byte == 9 or byte == 13 or byte == 0:
            pending = started
        else:
            if pending:
                out[size] = _BLANK
                size += 1
                pending = False
            started = True
            out[size] = byte
            size += 1
    return size


@kernel
def code_point(text: Bytes, i: int) -> tuple[int, int]:
    """Return the code point at byte i and its length in bytes."""
    first = np.int64(text[i])
    if first < 0x80:
        return first, 1
    if first < 0xE0 and i + 1 < text.size:
        return (first & 0x1F) << 6 | np.int64(text[i + 1]) & 0x3F, 2
    if first < 0xF0 and i + 2 < text.size:
        return (first & 0x0F) << 12 | (np.int64(text[i + 1]) & 0x3F) << 6 | np.int64(text[i + 2]) & 0x3F, 3
    if i + 3 < text.size:
        rest = (np.int64(text[i + 1]) & 0x3F) << 12 | (np.int64(text[i + 2]) & 0x3F) << 6 | np.int64(text[i + 3]) & 0x3F
        return min((first & 0x07) << 18 | rest, 0x10FFFF), 4
    return _REPLACEMENT, text.size - i


@kernel
def _put(out: Bytes, size: int, code: int) -> int:
    """Write a code point below 0x10000 as UTF-8; return the new size."""
    if code < 0x80:
        out[size] = code
        return size + 1
    if code < 0x800:
        out[size] = 0xC0 | code >> 6
        out[size + 1] = 0x80 | code & 0x3F
        return size + 2
    out[size] = 0xE0 | code >> 12
    out[size + 1] = 0x80 | code >> 6 & 0x3F
    out[size + 2] = 0x80 | code & 0x3F
    return size + 3


@kernel
def _marker_length(text: Bytes, i: int, document_end: int, classes: Bytes) -> int:
    """Return the length of the <s>, </s> or <unk> at i that is followed by white space or an end; 0 if there is
    none.
    """
    length = 0
    for marker in range(3):
        same = i + _MARKER_LENGTHS[marker] <= text.size
        for j in range(_MARKER_LENGTHS[marker]):
            same = same and text[i + j] == _MARKERS[marker, j]
        if same:
            length = _MARKER_LENGTHS[marker]
    after = i + length
    if length == 0 or after == text.size or text[after] == document_end:
        return length
    return length if classes[code_point(text, after)[0]] == SPACE else 0


@kernel
def rewrite_words(text: Bytes, document_end: int, classes: Bytes, out: Bytes) -> int:
    """Split into words, numbers and single characters, with joiners where there was no white space.

    `out` needs 5 bytes for each of `text`: at worst, marks and letters alternate, and a space, a joiner, a mark, a
    joiner, a space and a letter are ten bytes for two.
    """
    size = 0
    before = DOCUMENT_START  # the class of what was written last
    i = 0
    while i < text.size:
        if text[i] == document_end:
            out[size] = _LINE_FEED
            size += 1
            before = DOCUMENT_START
            i += 1
            continue
        if before != ALONE and text[i] < 0x80 and classes[text[i]] == LETTER:  # the short way for most of most texts
            if before == SPACE:
                out[size] = _BLANK
                size += 1
            while i < text.size and text[i] < 0x80 and classes[text[i]] == LETTER:
                out[size] = text[i]
                size += 1
                i += 1
            before = LETTER
            continue
        code, length = code_point(text, i)
        kind = classes[code]
        if kind == SPACE:
            before = before if before == DOCUMENT_START else SPACE
            i += length
            continue
        apart = before == SPACE or before == DOCUMENT_START
        if apart and code == 60:  # "<"
            marker = _marker_length(text, i, document_end, classes)
            length = marker if marker > 0 else length
            kind = LETTER if marker > 0 else kind
        if kind == EXTEND:
            kind = LETTER if apart else before
        elif kind == CONNECTOR or kind == NUMBER_CONNECTOR:
            joins = False
            if (before == LETTER or before == DIGIT) and i + length < text.size and text[i + length] != document_end:
                after = classes[code_point(text, i + length)[0]]
                joins = before == DIGIT and after == DIGIT
                if kind == CONNECTOR:
                    joins = after == LETTER or after == DIGIT
            kind = before if joins else ALONE
        in_word = kind == LETTER or kind == DIGIT
        continues = not apart and ((in_word and before != ALONE) or classes[code] == EXTEND)
        if before == SPACE:
            out[size] = _BLANK
            size += 1
        elif before != DOCUMENT_START and not continues:
            if in_word:  # it touches a character that stands alone, which carries the joiner
                size = _put(out, size, _JOINER)
                out[size] = _BLANK
                size += 1
            else:
                out[size] = _BLANK
                size = _put(out, size + 1, _JOINER)
        if code == _JOINER:
            size = _put(out, size, _REPLACEMENT)
        else:
            for j in range(length):
                out[size + j] = text[i + j]
            size += length
        before = kind
        i += length
    return size


@kernel
def rewrite_characters(text: Bytes, document_end: int, out: Bytes) -> int:
    """Cut into code points; those that would read as white space become their pictures.

    `out` needs 4 bytes for each of `text`.
    """
    size = 0
    started = False
    i = 0
    while i < text.size:
        if text[i] == document_end:
            out[size] = _LINE_FEED
            size += 1
            started = False
            i += 1
            continue
        code, length = code_point(text, i)
        if started:
            out[size] = _BLANK
            size += 1
        if code == 0 or code == 9 or code == 10 or code == 13 or code == 32:
            size = _put(out, size, _PICTURES_FIRST + code)
        elif _PICTURES_FIRST <= code <= _PICTURES_LAST:
            size = _put(out, size, _REPLACEMENT)
        else:
            for j in range(length):
                out[size + j] = text[i + j]
            size += length
        started = True
        i += length
    return size


@kernel
def rewrite_bytes(text: Bytes, document_end: int, symbols: Array, out: Bytes) -> int:
    """Cut into bytes, each shown by its symbol, a code point below 0x800. `out` needs 3 bytes for each of `text`."""
    size = 0
    started = False
    for byte in text:
        if byte == document_end:
            out[size] = _LINE_FEED
            size += 1
            started = False
            continue
        if started:
            out[size] = _BLANK
            size += 1
        size = _put(out, size, np.int64(symbols[byte]))
        started = True
    return size


TAG, SPACE_INSIDE, LINE_FEED_INSIDE = 0xFC, 0xFD, 0xFE  # bytes that UTF-8 does not have


@kernel
def write_pieces(pieces: Array, lengths: Array, pool: Bytes, offsets: Array, out: Bytes) -> int:
    """Write documents of `lengths` subwords each, a space between them and a newline after each document.

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
    """Split before each single space between visible characters; the space belongs to the chunk after it.

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


AS_IT_IS = -1

_NAMED_LENGTH = 6  # of <0xE9>


@kernel
def _is_at(mark: Bytes, tokens: Bytes, start: int, stop: int) -> bool:
    """Return whether a non-empty mark begins at `start` and ends by `stop`."""
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
    """Put a space between tokens, unless a mark joins them.

    before, after: the mark at the start and at the end of a token; empty for none.
    """
    size = count = 0
    touches = True  # the text before: nothing in this document, or a token with a mark at its end
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
    """Concatenate tokens.

    meanings: the byte that a code point stands for, or AS_IT_IS; code points past its end stay unchanged, too.
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
    """Return the byte that the token <0xE9> at i names; -1 for any other token."""
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
    """Return the code point at byte i, and its length in bytes; 0x10000 for all that take four, and for damaged
    ones.
    """
    first = np.int64(tokens[i])
    if first < 0x80:
        return first, 1
    if 0xC0 <= first < 0xE0 and i + 1 < tokens.size:
        return (first & 0x1F) << 6 | np.int64(tokens[i + 1]) & 0x3F, 2
    if 0xE0 <= first < 0xF0 and i + 2 < tokens.size:
        return (first & 0x0F) << 12 | (np.int64(tokens[i + 1]) & 0x3F) << 6 | np.int64(tokens[i + 2]) & 0x3F, 3
    return 0x10000, 1
