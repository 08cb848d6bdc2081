"""Units of texts with the nearest vectors, a word marked in its sentence, and vectors as a file of NumPy."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.decoding.options import EmbeddingConfig
    from chainrule.models.embedding import Embedded, Vectors

_MARKED = re.compile(r"([^\[\]]*)\[\s*([^\[\]\s]+)\s*\](.*)", re.DOTALL)
_SEVERAL = re.compile(r"\[\s*[^\[\]\s]+\s+[^\[\]\s]")


def vector_of_marked(
    embed_units: Callable[[Sequence[str], EmbeddingConfig], list[Embedded]], text: str, config: EmbeddingConfig
) -> Float32[ndarray, " D"]:
    """Return the vector of the word or token in brackets: the [bank] of the river.

    embed_units: a model's method that embeds the words or tokens in texts. Raises SettingError if not exactly one word
    is in brackets, or the model has no vectors.
    """
    match = _MARKED.fullmatch(text)
    if match is None or "[" in match[3]:
        marks = "marks more than one word" if match is not None or _SEVERAL.search(text) else "marks no word"
        raise SettingError(f"{text!r} {marks}; put one of its words in brackets, as in: the [bank] of the river")
    [before] = embed_units([match[1]], config)
    [whole] = embed_units([match[1] + match[2] + match[3]], config)
    unit = next((i for i, (_, stop) in enumerate(whole.spans) if stop > len(before.text.rstrip())), None)
    if unit is None:
        raise SettingError(f"normalising leaves nothing of [{match[2]}], so it has no vector; mark another word")
    return whole.vectors[unit]


def nearest(
    documents: Iterable[Embedded], query: Float32[ndarray, " D"], n: int
) -> list[tuple[float, str, tuple[int, int]]]:
    """Return the n units whose vectors have the largest cosine with the query, best first: cosine, text and span."""
    best: list[tuple[float, int, str, tuple[int, int]]] = []
    rank = 0
    for text, spans, vectors, _ in documents:
        for cosine, span in zip(cosines(vectors, query).tolist(), spans, strict=True):
            rank -= 1  # of equal ones, the first
            if len(best) < n:
                heapq.heappush(best, (cosine, rank, text, span))
            elif cosine > best[0][0]:
                heapq.heapreplace(best, (cosine, rank, text, span))
    return [(cosine, text, span) for cosine, _, text, span in sorted(best, reverse=True)]


def cosines(vectors: Vectors, query: Float32[ndarray, " D"]) -> Float32[ndarray, " units"]:
    """Return the cosine of each vector with the query; 0 for a vector of zeros."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(query)
    return np.asarray((vectors @ query) / np.where(lengths == 0, 1, lengths))


def write_rows(file: BinaryIO, parts: Iterable[Vectors]) -> None:
    """Write a .npy file of vectors that arrive in parts: NumPy's headers leave room for the final number of rows."""
    rows = width = 0
    for part in parts:
        if not width:
            width = part.shape[1]
            _write_header(file, 0, width)
        file.write(np.ascontiguousarray(part, "<f4").data)
        rows += len(part)
    file.seek(0)
    _write_header(file, rows, width)


def _write_header(file: BinaryIO, rows: int, width: int) -> None:
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
