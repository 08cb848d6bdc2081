"""A cache for subword tokenization: splits a text into chunks and tokenizes each distinct chunk once.

A chunk is roughly a word with the space before it. The library needs 0.4 s for a megabyte, but many megabytes have few
distinct chunks, and our own hash table finds those seen before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from chainrule.protocol import END
from chainrule.text.block import byte_array
from chainrule.text.character_classes import character_classes
from chainrule.text.piece_kernels import LINE_FEED_INSIDE, SPACE_INSIDE, cut_at_spaces, write_pieces
from chainrule.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Int, Int64, UInt8
    from numpy import ndarray

REMEMBERED = 1 << 20  # chunks; the cache is cleared when it has more


class Chunks:
    """The pieces of each chunk seen so far.

    cut: texts -> their pieces, separated by spaces, with a newline after each text.
    """

    def __init__(self, cut: Callable[[list[bytes]], Iterable[UInt8[ndarray, " bytes"]]]) -> None:
        self._cut = cut
        self._lock = threading.Lock()
        self._forget()

    def rewrite(self, text: UInt8[ndarray, " bytes"], document_end: int) -> UInt8[ndarray, " bytes"]:
        """As `Splitter.rewrite`."""
        out = np.empty(3 * text.size, np.uint8)
        chunked = out[: cut_at_spaces(text, document_end, character_classes(), out)]
        with self._lock:
            if len(self._vocabulary) > REMEMBERED:
                self._forget()
            stream = self._vocabulary.encode(chunked, grow=True).ids
            self._learn()
            pool, offsets = self._pool, self._offsets
        ends = np.flatnonzero(stream == END)
        return write_documents(stream[stream != END], np.diff(ends, prepend=-1) - 1, pool, offsets)

    def _forget(self) -> None:
        self._vocabulary = Vocabulary()
        self._pool, self._offsets = packed([b""] * len(self._vocabulary))

    def _learn(self) -> None:
        """Adds the pieces of new chunks."""
        new = range(self._offsets.size - 1, len(self._vocabulary))
        if not new:
            return
        chunks = [_text_of(self._vocabulary.token_bytes(chunk)) for chunk in new]
        pieces = b"".join(part.tobytes() for part in self._cut(chunks)).split(b"\n")[:-1]
        pool, offsets = packed(pieces)
        self._pool = np.concatenate([self._pool, pool])
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + offsets[1:]])


def write_documents(
    pieces: Int[ndarray, " pieces"],
    lengths: Int64[ndarray, " documents"],
    pool: UInt8[ndarray, " bytes"],
    offsets: Int64[ndarray, " known+1"],
) -> UInt8[ndarray, " bytes"]:
    """Documents as tokens: each is the next `lengths[i]` of `pieces`. Piece p is pool[offsets[p]:offsets[p + 1]]."""
    size = int((offsets[pieces + 1] - offsets[pieces]).sum()) + pieces.size + lengths.size
    out = np.empty(size, np.uint8)
    return out[: write_pieces(pieces, lengths, pool, offsets, out)]


def packed(pieces: Sequence[bytes]) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " pieces+1"]]:
    """All pieces concatenated, and the offset of each."""
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    return byte_array(b"".join(pieces)), np.concatenate([[0], np.cumsum(lengths)])


def _text_of(chunk: bytes) -> bytes:
    return chunk[1:].translate(_UNESCAPED)


_UNESCAPED = bytes.maketrans(bytes([SPACE_INSIDE, LINE_FEED_INSIDE]), b" \n")
