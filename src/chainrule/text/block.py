"""Whole documents in one array of bytes: what every reader gives and every tokenizer takes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Int64, UInt8
    from numpy import ndarray

LINE_FEED = 10
NEVER_IN_UTF8 = 0xFF  # ends documents that hold newlines themselves


@dataclass(frozen=True)
class Block:
    """Whole documents of one source, each ended by the byte `document_end`, which stands nowhere else in it."""

    text: UInt8[ndarray, " bytes"]  # UTF-8, but for the ends of documents
    source: str
    first: int  # the number of its first document in the source, from 1
    document_end: int = LINE_FEED  # or NEVER_IN_UTF8, where documents may hold newlines
    unit: str = "line"  # what the numbers count; empty where a whole file is one document
    numbers: Int64[ndarray, " documents"] | None = None  # of its documents, where they do not follow one another
    repaired: int = 0  # places that were not UTF-8 and have been replaced or left out

    def documents(self) -> list[str]:
        """Without their ends."""
        end = bytes([self.document_end])
        return [document.decode() for document in self.text.tobytes().split(end)[:-1]]

    def stops(self) -> Int64[ndarray, " documents"]:
        """The place behind the end of each document."""
        return np.flatnonzero(self.text == self.document_end) + 1

    def select(self, chosen: Bool[ndarray, " documents"], stops: Int64[ndarray, " documents"]) -> Block:
        """Some of its documents, one at least. stops: what `stops()` gave."""
        if chosen.all():
            return self
        text = self.text[np.repeat(chosen, np.diff(stops, prepend=0))]
        numbers = np.arange(self.first, self.first + stops.size) if self.numbers is None else self.numbers
        return replace(self, text=text, first=int(numbers[chosen][0]), numbers=numbers[chosen], repaired=0)

    def pieces(self, size: int) -> Iterator[Block]:
        """Its documents, some at a time: as many as begin within so many bytes."""
        stops = self.stops()
        edges = np.flatnonzero(np.diff(np.concatenate([[0], stops[:-1]]) // size, prepend=-1)).tolist()
        for start, stop in itertools.pairwise([*edges, stops.size]):
            text = self.text[int(stops[start - 1]) if start else 0 : int(stops[stop - 1])]
            numbers = None if self.numbers is None else self.numbers[start:stop]
            first = self.first + start if numbers is None else int(numbers[0])
            yield replace(self, text=text, first=first, numbers=numbers, repaired=0 if start else self.repaired)

    def place(self, document: int) -> str:
        """Where its document of this number, from 1, stands, for messages: "corpus.txt, line 7"."""
        if not self.unit:
            return self.source
        number = self.first + document - 1 if self.numbers is None else self.numbers[document - 1]
        return f"{self.source}, {self.unit} {number}"


def byte_array(data: bytes) -> UInt8[ndarray, " bytes"]:
    """Bytes as a writable array: Numba compiles everything anew for read-only ones."""
    return np.frombuffer(bytearray(data), np.uint8)
