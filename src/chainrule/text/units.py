"""Words and other units of texts, whatever the tokenizer, and to which unit each token belongs.

A word is a run of anything but the separators of tokens, which are spaces, tabs, line ends and NUL. A token belongs to
the word that contains its last visible byte: leading white space belongs to the next word, a token of only white space
to the word after it, and a token that spans several words to the last one. The end of a document, </s>, is a word of
its own. The units of encoded documents are the documents themselves, words or tokens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from chainrule.protocol import BEGIN, END
from chainrule.text.corpus.block import byte_array
from chainrule.text.tokenization.splitters import SEPARATORS
from chainrule.text.unit_kernels import count_characters, find_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Int32, Int64, UInt8
    from numpy import ndarray

    from chainrule.text.tokenization.detokenizer import Alignment
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded


class Words(NamedTuple):
    """The words of some documents: document i has words documents[i] to documents[i + 1], its end last.

    starts, stops: in bytes of the aligned text.
    """

    starts: Int64[ndarray, " words"]
    stops: Int64[ndarray, " words"]
    of_tokens: Int64[ndarray, " T"]  # the word of each token, in ascending order
    documents: Int64[ndarray, " documents+1"]


def words_of(ids: Int32[ndarray, " T"], aligned: Alignment) -> Words:
    """Return the words of some documents. ids: their tokens. aligned: the positions of these in the text."""
    starts, stops = np.empty((2, aligned.text.size), np.int64)
    of_tokens = np.empty(ids.size, np.int64)
    of_text = aligned.text, IS_SEPARATOR, np.ascontiguousarray(ids, np.int32), aligned.starts, aligned.stops
    count = find_words(*of_text, starts, stops, of_tokens)
    documents = np.concatenate([[0], of_tokens[ids == END] + 1])
    return Words(starts[:count].copy(), stops[:count].copy(), of_tokens, documents)


def begins_word(tokenizer: Tokenizer, *, spaces_only: bool = False) -> Bool[ndarray, " V"]:
    """Return whether each token of the vocabulary begins a word: after another token, it starts with white space.

    The tokens of word and whitespace tokenizers are whole words, so all of them do. spaces_only: tokens of pieces that
    start with other white space, such as line feeds, do not, nor do markers.
    """
    key = len(tokenizer.vocabulary), spaces_only  # a vocabulary only grows
    known = _BEGINS.setdefault(tokenizer, {})
    if key not in known:
        known[key] = _begins_word(tokenizer, spaces_only=spaces_only)
    return known[key].copy()


_BEGINS: WeakKeyDictionary[Tokenizer, dict[tuple[int, bool], Bool[ndarray, " V"]]] = WeakKeyDictionary()


def _begins_word(tokenizer: Tokenizer, *, spaces_only: bool) -> Bool[ndarray, " V"]:
    tokens = tokenizer.vocabulary.tokens()
    if tokenizer.name in ("word", "whitespace"):
        return np.ones(len(tokens), np.bool_)
    aligned = tokenizer.splitter.align(byte_array(b"".join(b"a " + token + b"\n" for token in tokens)))
    first = aligned.text[aligned.stops[::3]]  # the byte after each "a"
    if spaces_only:
        begins = first == 32
        begins[[BEGIN, END]] = False
        return np.asarray(begins)
    begins = is_white(first)
    begins[[BEGIN, END]] = True
    return np.asarray(begins)


def is_white(text: UInt8[ndarray, " bytes"]) -> Bool[ndarray, " bytes"]:
    """Return whether each byte is a separator of tokens: other white space, such as form feeds, may be inside a
    token.
    """
    return IS_SEPARATOR[text]


IS_SEPARATOR = np.isin(np.arange(256), byte_array(SEPARATORS))
_BETWEEN = re.compile("[\t\n\r ]+")  # of words as given; a NUL is a word that the normaliser removes


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
        """Yield each document with its units."""
        characters = characters_before(self.text)
        begin = 0
        for document, end in enumerate(self.ends.tolist()):
            inside = slice(*self.documents[document : document + 2].tolist())
            starts, stops = (
                (characters[column[inside]] - characters[begin]).tolist() for column in (self.starts, self.stops)
            )
            text = self.text[begin:end].tobytes().decode("utf-8", "replace")
            yield DocumentUnits(text, list(zip(starts, stops, strict=True)), inside)
            begin = end + 1


def characters_before(text: UInt8[ndarray, " bytes"]) -> Int64[ndarray, " bytes+1"]:
    """Return how many characters come before each byte, and before the end."""
    before = np.empty(text.size + 1, np.int64)
    count_characters(text, before)
    return before


def split_words(text: str) -> list[str]:
    """Return the words of a text as given."""
    return [word for word in _BETWEEN.split(text) if word]


def count_words(tokenizer: Tokenizer, texts: Sequence[str]) -> list[int]:
    """Return the number of words of each text after normalisation, as in `units_of`."""
    if not texts:
        return []
    counts: list[int] = np.diff(units_of(tokenizer, tokenizer.encode_texts(texts), "word").documents).tolist()
    return counts


def units_of(tokenizer: Tokenizer, encoded: Encoded, unit: Literal["text", "word", "token"]) -> TextUnits:
    """Return the units of encoded documents. Words are those of `words_of`."""
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
