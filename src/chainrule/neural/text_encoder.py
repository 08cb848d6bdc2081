"""Networks that give vectors of texts and of their tokens, but neither score texts nor fill in gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.neural.config import TextEncoderConfig
from chainrule.neural.vectors import static_vectors, token_vectors, vectors_of_read
from chainrule.protocol import TextVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.neural.network import Network


class TextEncoder:
    """An Embedder with a vector for a text as a whole, which its pooling makes (Reimers and Gurevych 2019)."""

    def __init__(self, network: Network) -> None:
        """Sets the network to evaluation mode, without dropout."""
        assert isinstance(network.config, TextEncoderConfig)
        self.network, self.config = network.eval(), network.config
        self.vocabulary_size = network.vocabulary_size

    def vectors(
        self, sequences: Sequence[Int32[ndarray, " tokens"]], layer: int | None = None, *, bfloat16: bool = False
    ) -> list[Float32[ndarray, "tokens D"]]:
        """As `Embedder.vectors`."""
        return token_vectors(self.network, sequences, layer, bfloat16=bfloat16)

    def text_vectors(
        self, sequences: Sequence[Int32[ndarray, " tokens"]], layer: int | None = None, *, bfloat16: bool = False
    ) -> TextVectors:
        """As `Embedder.text_vectors`."""
        most = self.config.context if self.config.most_tokens is None else self.config.most_tokens
        most -= 1 if self.config.closed_by is None else 2  # the token before a text, and that after it
        read = vectors_of_read(self.network, [sequence[:most] for sequence in sequences], layer, bfloat16=bfloat16)
        vectors = np.stack([self._pooled(vectors) for vectors in read]) if read else np.empty((0, 0), np.float32)
        if self.config.unit_length:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        return TextVectors(vectors, np.array([len(sequence) > most for sequence in sequences], np.bool_))

    def static_vectors(self) -> Float32[ndarray, "vocab D"]:
        """As `Embedder.static_vectors`."""
        return static_vectors(self.network)

    def _pooled(self, vectors: Float32[ndarray, "read D"]) -> Float32[ndarray, " D"]:
        """Of all that was read for a text, with its markers."""
        if self.config.text_pooling == "first":
            return vectors[0]
        return np.asarray(vectors.max(0) if self.config.text_pooling == "max" else vectors.mean(0))
