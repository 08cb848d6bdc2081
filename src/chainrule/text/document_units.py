"""The units of encoded documents (the documents themselves, words or tokens): their positions and their tokens."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from chainrule.protocol import END
from chainrule.text.words import words_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.tokenizer import Tokenizer
    from chainrule.text.vocabulary import Encoded


_BETWEEN = re.compile("[\t-\r ]+")


class UnitTokens(NamedTuple):
    """A document's tokens, the unit of each (-1 for none), and the number of its units."""

    tokens: Int32[ndarray, " T"]
    of_tokens: Int64[ndarray, " T"]
    number: int


class DocumentUnits(NamedTuple):
    """A normalised document. spans: of its units, in characters. numbers: which of all units are its own."""

    text: str
    spans: list[tuple[int, int]]
    numbers: slice

    @property
    def shown(self) -> list[str]:
        return [self.text[start:stop] for start, stop in self.spans]


class TextUnits(NamedTuple):
    """The units of some documents: document i has units documents[i] to documents[i + 1]. Positions are in bytes."""

    text: UInt8[ndarray, " bytes"]  # normalised
    starts: Int64[ndarray, " units"]
    stops: Int64[ndarray, " units"]
    of_tokens: Int64[ndarray, " T"]  # the unit of each token except </s>, in ascending order; -1 for none
    documents: Int64[ndarray, " documents+1"]
    ends: Int64[ndarray, " documents"]  # the positions of the newlines that end documents

    def by_document(self) -> Iterator[DocumentUnits]:
        """Each document with its units."""
        characters = np.concatenate([[0], np.cumsum((self.text & 0xC0) != 0x80)])  # before each byte
        begin = 0
        for document, end in enumerate(self.ends.tolist()):
            inside = slice(*self.documents[document : document + 2].tolist())
            starts, stops = (
                (characters[column[inside]] - characters[begin]).tolist() for column in (self.starts, self.stops)
            )
            text = self.text[begin:end].tobytes().decode("utf-8", "replace")
            yield DocumentUnits(text, list(zip(starts, stops, strict=True)), inside)
            begin = end + 1


def split_words(text: str) -> list[str]:
    """The words of a text as given, separated by ASCII white space."""
    return [word for word in _BETWEEN.split(text) if word]


def count_words(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """The number of words of each text after normalisation, as in `units_of`."""
    if not texts:
        return []
    counts: list[int] = np.diff(units_of(tokenizer, tokenizer.encode_texts(texts), "word").documents).tolist()
    return counts


def units_of(tokenizer: Tokenizer, encoded: Encoded, unit: Literal["text", "word", "token"]) -> TextUnits:
    """The units of encoded documents. Words are those of `words_of`: runs of anything but ASCII white space."""
    aligned = tokenizer.align(encoded)
    is_end = encoded.ids == END
    ends = aligned.starts[is_end]
    tokens_before = np.concatenate([[0], np.cumsum(~is_end)[is_end]])
    if unit == "token":
        positions = aligned.starts[~is_end], aligned.stops[~is_end]
        return TextUnits(aligned.text, *positions, np.arange(tokens_before[-1]), tokens_before, ends)
    if unit == "text":
        starts = np.concatenate([[0], ends[:-1] + 1])
        of_tokens = np.repeat(np.arange(ends.size), np.diff(tokens_before))
        return TextUnits(aligned.text, starts, ends, of_tokens, np.arange(ends.size + 1), ends)
    words = words_of(encoded.ids, aligned)
    is_word = np.ones(words.starts.size, np.bool_)
    is_word[words.documents[1:] - 1] = False  # the ends
    numbers = np.where(is_word, np.cumsum(is_word) - 1, -1)
    of_tokens = numbers[words.of_tokens[~is_end]]
    documents = words.documents - np.arange(words.documents.size)
    return TextUnits(aligned.text, words.starts[is_word], words.stops[is_word], of_tokens, documents, ends)
