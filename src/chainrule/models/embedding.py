"""Vectors of texts, words and tokens from an embedder, and their nearest neighbours."""

from __future__ import annotations

import heapq
import re
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.units import TextUnits, units_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.decoding.options import EmbeddingConfig
    from chainrule.protocol import Embedder
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

    Vectors = Float32[ndarray, "units D"]

_MARKED = re.compile(r"([^\[\]]*)\[\s*([^\[\]\s]+)\s*\](.*)", re.DOTALL)
_SEVERAL = re.compile(r"\[\s*[^\[\]\s]+\s+[^\[\]\s]")


class Embedded(NamedTuple):
    """The vectors of a document. spans: where its units are in the text, in characters; none for a document without
    tokens.

    is_cut: whether a sentence encoder left out the end of the text, which was too long for it.
    """

    text: str  # normalised
    spans: list[tuple[int, int]]
    vectors: Vectors  # one for each unit
    is_cut: bool = False

    @property
    def units(self) -> list[str]:
        return [self.text[start:stop] for start, stop in self.spans]


def embed(
    embedder: Embedder, tokenizer: Tokenizer, encoded: Encoded, config: EmbeddingConfig, prompt: str = ""
) -> Iterator[Embedded]:
    """Yield the encoded documents, in order. A text without tokens has a vector of zeros.

    prompt: what stands before each of them, which is no part of the text. Raises SettingError.
    """
    units = units_of(tokenizer, encoded, config.unit)
    sequences, bfloat16 = documents_of(encoded.ids), config.precision == "bfloat16"
    if not sequences:
        return
    if config.unit == "text" and config.pooling is None:
        of_texts = embedder.text_vectors(sequences, config.layer, dimensions=config.dimensions, bfloat16=bfloat16)
        if of_texts is not None:
            before = next(units_of(tokenizer, tokenizer.encode_texts([prompt]), "text").by_document()).text
            for document, vector, is_cut in zip(units.by_document(), *of_texts, strict=True):
                text, spans = document.text, document.spans
                if prompt:
                    text = text.removeprefix(before).lstrip()
                    spans = [(0, len(text))]
                yield Embedded(text, spans, vector[None], bool(is_cut))
            return
    if prompt or config.dimensions is not None:
        asked = "a prompt" if prompt else "dimensions"
        raise SettingError(f"{asked} is for sentence encoders, and this network is none; leave it out")
    vectors = embedder.vectors(sequences, config.layer, bfloat16=bfloat16)
    pooled = _pooled(np.concatenate(vectors), units, config)
    for document in units.by_document():
        yield Embedded(document.text, document.spans, pooled[document.numbers])


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


def _pooled(vectors: Vectors, units: TextUnits, config: EmbeddingConfig) -> Vectors:
    """Return one vector for each unit.

    A word without a token has that of the token that spans it, which belongs to a later word.
    """
    belongs = units.of_tokens >= 0
    of_tokens = units.of_tokens[belongs]
    own = vectors if belongs.all() else vectors[belongs]
    vectors = np.concatenate([own, np.zeros((1, vectors.shape[1]), np.float32)])  # so that reduceat has a last row
    firsts = np.searchsorted(of_tokens, np.arange(len(units.starts) + 1))
    counts = np.diff(firsts)
    if config.pooling in (None, "mean"):
        pooled = np.add.reduceat(vectors, firsts)[:-1] / np.maximum(counts, 1)[:, None].astype(np.float32)
    elif config.pooling == "max":
        pooled = np.maximum.reduceat(vectors, firsts)[:-1]
    else:
        pooled = vectors[firsts[:-1] if config.pooling == "first" else np.maximum(firsts[1:] - 1, firsts[:-1])]
    if config.unit == "text":
        pooled[counts == 0] = 0
    return pooled
