"""Vectors of texts, of their parts and of a vocabulary, for the methods of `Model` that give them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.applications.embedding import Embedded, embedded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.applications.config import EmbeddingConfig
    from chainrule.protocol import Embedder
    from chainrule.text.corpus.block import Block
    from chainrule.text.tokenization.tokenizer import Tokenizer

_BATCH = 1 << 10  # texts
_BATCH_BYTES = 1 << 16  # of texts, which are sorted by length


def embed_texts(
    embedder: Embedder, tokenizer: Tokenizer, texts: Sequence[str], config: EmbeddingConfig
) -> list[Embedded]:
    """The vectors of what the configuration says, by text. Raises SettingError, MarkerError."""
    batches = (texts[first : first + _BATCH] for first in range(0, len(texts), _BATCH))
    encoded = (tokenizer.encode_texts(batch) for batch in batches)
    return [text for batch in encoded for text in embedded(embedder, tokenizer, batch, config)]


def embed_whole_texts(
    embedder: Embedder, tokenizer: Tokenizer, texts: Sequence[str], config: EmbeddingConfig
) -> Float32[ndarray, "texts D"]:
    """One vector for each text. Raises SettingError, MarkerError."""
    if not texts:
        [empty] = embed_texts(embedder, tokenizer, [""], config)
        return empty.vectors[:0]
    return np.concatenate([text.vectors for text in embed_texts(embedder, tokenizer, texts, config)])


def embed_blocks(
    embedder: Embedder, tokenizer: Tokenizer, blocks: Iterable[Block], config: EmbeddingConfig
) -> Iterator[Embedded]:
    """As `embed_texts`, of the documents of blocks as they come."""
    for piece in (piece for block in blocks for piece in block.pieces(_BATCH_BYTES)):
        yield from embedded(embedder, tokenizer, tokenizer.encode_block(piece), config)


def embed_vocabulary(embedder: Embedder, tokenizer: Tokenizer) -> Iterator[Embedded]:
    """The tokens of the vocabulary, each a text of its own, with their vectors in no context."""
    vectors = embedder.static_vectors()
    for i, token in enumerate(tokenizer.vocabulary.tokens()):
        text = token.decode("utf-8", "replace")
        yield Embedded(text, [(0, len(text))], vectors[i : i + 1])
