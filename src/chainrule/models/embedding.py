"""Vectors of texts, words and tokens from an embedder."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from chainrule.errors import SettingError
from chainrule.text.tokenization.tokenizer import documents_of
from chainrule.text.units import TextUnits, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.decoding.options import EmbeddingConfig
    from chainrule.protocol import Embedder
    from chainrule.text.tokenization.tokenizer import Tokenizer
    from chainrule.text.tokenization.vocabulary import Encoded

    Vectors = Float32[ndarray, "units D"]


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
