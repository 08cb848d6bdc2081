"""Compiled search for the words of documents, and for the word of each token."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.protocol import END

Array = NDArray[Any]


@kernel
def find_words(
    text: Array,
    white: Array,
    ids: Array,
    token_starts: Array,
    token_stops: Array,
    starts: Array,
    stops: Array,
    of_tokens: Array,
) -> int:
    """Write the words of documents, which are runs of bytes that are not white, and </s>; return their number.

    white: whether each of the 256 bytes is white space. ids, token_starts, token_stops: of the tokens. starts, stops:
    need room for each byte of the text. of_tokens: gets the word of each token, see `chainrule.text.units`.
    """
    count, position = 0, 0
    for i in range(ids.size + 1):
        end = token_stops[i] - 1 if i < ids.size and ids[i] == END else -1
        if i < ids.size and end < 0:
            continue
        limit = text.size if i == ids.size else end
        while position < limit:
            if white[text[position]]:
                position += 1
                continue
            starts[count] = position
            while position < limit and not white[text[position]]:
                position += 1
            stops[count] = position
            count += 1
        if end >= 0:
            starts[count], stops[count] = end, end + 1
            count += 1
            position = max(position, end + 1)
    word = 0
    for i in range(ids.size):
        last = token_stops[i] - 1
        while last >= token_starts[i] and white[text[last]]:
            last -= 1
        if last >= token_starts[i]:
            while word > 0 and starts[min(word, count - 1)] > last:
                word -= 1
            while word + 1 < count and starts[word + 1] <= last:
                word += 1
        else:
            while word > 0 and starts[word - 1] >= token_starts[i]:
                word -= 1
            while word < count and starts[word] < token_starts[i]:
                word += 1
        of_tokens[i] = word
    return count


@kernel
def count_characters(text: Array, before: Array) -> None:
    """Set before[i] to the number of characters that begin before byte i of a text, and of all at its end."""
    count = 0
    for i in range(text.size):
        before[i] = count
        count += text[i] & 0xC0 != 0x80
    before[text.size] = count
