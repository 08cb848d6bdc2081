"""Blocks: whole documents in one array of bytes. Every reader yields blocks, and every tokenizer encodes them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jaxtyping import Bool, Int64, UInt8
    from numpy import ndarray

LINE_FEED = 10
NEVER_IN_UTF8 = 0xFF  # ends documents that hold newlines themselves


@dataclass(frozen=True)
class Block:
    """Whole documents of one source, each ended by the byte `document_end`, which occurs nowhere else."""

    text: UInt8[ndarray, " bytes"]  # UTF-8, except for the ends of documents
    source: str
    first: int  # the number of the first document in the source, from 1
    document_end: int = LINE_FEED  # or NEVER_IN_UTF8, if documents may contain newlines
    unit: str = "line"  # what the numbers count; empty if a whole file is one document
    numbers: Int64[ndarray, " documents"] | None = None  # of the documents, if they are not consecutive
    repaired: int = 0  # invalid UTF-8 sequences that were replaced or removed
    fields: Sequence[Mapping[str, Any]] | None = None  # all those of the record of each document, where asked for

    def documents(self) -> list[str]:
        """Return the documents as strings, without their ends."""
        end = bytes([self.document_end])
        return [document.decode() for document in self.text.tobytes().split(end)[:-1]]

    def stops(self) -> Int64[ndarray, " documents"]:
        """Return the position after the end of each document."""
        return np.flatnonzero(self.text == self.document_end) + 1

    def select(self, chosen: Bool[ndarray, " documents"], stops: Int64[ndarray, " documents"]) -> Block:
        """Return a block of the chosen documents, at least one. stops: from `stops()`."""
        if chosen.all():
            return self
        text = self.text[np.repeat(chosen, np.diff(stops, prepend=0))]
        numbers = np.arange(self.first, self.first + stops.size) if self.numbers is None else self.numbers
        fields = None if self.fields is None else [self.fields[i] for i in np.flatnonzero(chosen).tolist()]
        return replace(
            self, text=text, first=int(numbers[chosen][0]), numbers=numbers[chosen], repaired=0, fields=fields
        )

    def pieces(self, size: int) -> Iterator[Block]:
        """Yield smaller blocks: each has the documents that begin within the next `size` bytes."""
        stops = self.stops()
        edges = np.flatnonzero(np.diff(np.concatenate([[0], stops[:-1]]) // size, prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*edges, stops.size]):
            text = self.text[int(stops[start - 1]) if start else 0 : int(stops[stop - 1])]
            numbers = None if self.numbers is None else self.numbers[start:stop]
            first = self.first + start if numbers is None else int(numbers[0])
            fields = None if self.fields is None else self.fields[start:stop]
            repaired = 0 if start else self.repaired
            yield replace(self, text=text, first=first, numbers=numbers, repaired=repaired, fields=fields)

    def after(self, prompt: str) -> Block:
        """Return the block with a text before each document."""
        text = np.where(self.text == self.document_end, np.uint8(NEVER_IN_UTF8), self.text)
        starts = np.concatenate([[0], self.stops()[:-1]])
        own = np.frombuffer(prompt.encode("utf-8", "replace"), np.uint8)
        text = np.insert(text, np.repeat(starts, own.size), np.tile(own, starts.size))
        return replace(self, text=text, document_end=NEVER_IN_UTF8)

    def locate(self, document: int) -> str:
        """Return the location of a document of this block, counted from 1, for messages: "corpus.txt, line 7"."""
        if not self.unit:
            return self.source
        number = self.first + document - 1 if self.numbers is None else self.numbers[document - 1]
        return f"{self.source}, {self.unit} {number}"


@dataclass(frozen=True)
class Texts:
    """Some texts by their places in one array of bytes. errors: how bytes that are not UTF-8 are decoded."""

    text: UInt8[ndarray, " bytes"]
    starts: Int64[ndarray, " texts"]
    stops: Int64[ndarray, " texts"]
    errors: str = "replace"

    def __len__(self) -> int:
        return self.starts.size

    def __getitem__(self, chosen: Any) -> Texts:
        """Return the texts that an index, or an array of truth values, chooses."""
        return replace(self, starts=self.starts[chosen], stops=self.stops[chosen])

    def with_all(self, chosen: Int64[ndarray, " some"], text: str) -> Texts:
        """Return the texts with this one in the places of some."""
        whole = np.concatenate([self.text, byte_array(text.encode())])
        starts, stops = self.starts.copy(), self.stops.copy()
        starts[chosen], stops[chosen] = self.text.size, whole.size
        return replace(self, text=whole, starts=starts, stops=stops)

    def tolist(self) -> list[str]:
        """Return the texts as strings, as an array's method of this name does."""
        text, places = self.text.tobytes(), zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return [text[start:stop].decode("utf-8", self.errors) for start, stop in places]


def byte_array(data: bytes) -> UInt8[ndarray, " bytes"]:
    """Return bytes as a writable array: Numba would compile every kernel again for read-only ones."""
    return np.frombuffer(bytearray(data), np.uint8)


def block_of_texts(texts: Sequence[str], name: str = "the texts") -> Block:
    """Return a block of several texts, each a document, whatever its line ends. name: for errors."""
    data = b"".join(text.encode("utf-8", "replace") + bytes([NEVER_IN_UTF8]) for text in texts)
    return Block(byte_array(data), name, 1, NEVER_IN_UTF8, "")
