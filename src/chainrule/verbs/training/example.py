"""A sentence that a model's folder keeps, so that who first looks at the model sees it read a text of its own kind.

It is the first of the held-out text, or the last of the training text where nothing is held out, of a length that is
read at a glance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

    Tokens = Int32[ndarray, " tokens"]

LAST = 20_000  # tokens at the end of a text among which an example is looked for
_TOKENS = 400  # of a document that are read
_SHORTEST, _LONGEST = 24, 140  # characters of an example
_ENDS = (".", "?", "!", "。", "？")


def sentence_of(tokenizer: Tokenizer, stream: Tokens) -> str | None:
    """The first document of a stream, or its first sentence, of a good length; else the beginning of the longest.

    stream: documents, each ended by </s>; the first may have lost its beginning, and is left out if there is another.
    Unknown tokens are in none. None if the stream has no text.
    """
    whole = stream[:LAST]
    ends = np.flatnonzero(whole == END)
    if len(ends) > 1 and len(stream) >= LAST:
        whole = whole[ends[0] + 1 :]
    longest = ""
    for document in _documents(whole):
        given = " ".join(tokenizer.decode(document[:_TOKENS]).split())
        text = shorten(given)
        if len(text) >= _SHORTEST and (text == given or text.endswith(_ENDS)):
            return text
        longest = max(longest, text, key=len)
    return longest or None


def _documents(stream: Tokens) -> Iterator[Tokens]:
    ends = [*np.flatnonzero(stream == END).tolist(), len(stream)]
    for start, stop in zip([0, *(end + 1 for end in ends)], ends, strict=False):
        if stop > start and not (stream[start : min(stop, start + _TOKENS)] == UNKNOWN).any():
            yield stream[start:stop]


def shorten(text: str) -> str:
    """The first sentences of a text on one line, or its first words."""
    if len(text) <= _LONGEST:
        return text
    cut = text[: _LONGEST + 1]
    stop = max(cut.rfind(mark) for mark in (". ", "? ", "! ", "。", "？"))
    return cut[: stop + 1] if stop >= _SHORTEST else cut[: cut.rfind(" ")] if " " in cut else cut[:-1]


def example_record(tokenizer: Tokenizer, stream: Tokens, *, is_held_out: bool) -> dict[str, Any]:
    """The entry `example` of a record; none where there is no text."""
    text = sentence_of(tokenizer, stream)
    return {} if text is None else {"example": {"text": text, "held_out": is_held_out}}


def pair_record(sides: Iterable[tuple[Tokenizer, Sequence[Tokens]]], *, is_held_out: bool) -> dict[str, Any]:
    """The same of pairs: sources and targets, each side with its tokenizer. `given` is the source of `text`."""
    (source_tokenizer, sources), (tokenizer, targets) = sides
    for given, text in zip(sources[:100], targets, strict=False):
        if len(text) and not (UNKNOWN in given or UNKNOWN in text):
            both = {"text": tokenizer.decode(text), "given": source_tokenizer.decode(given)}
            if max(map(len, both.values())) <= _LONGEST:
                return {"example": {**both, "held_out": is_held_out}}
    return {}
