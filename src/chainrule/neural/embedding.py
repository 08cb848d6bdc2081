"""Vectors of tokens in context, from any layer of a network; TextEncoder, which gives vectors and does nothing else.

Texts of similar length are read in one batch, to waste little on padding.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.base.arguments import check_tokens
from chainrule.base.threads import pause
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.config import TextEncoderConfig
from chainrule.neural.layers.projection import Projection
from chainrule.neural.network import add_boundaries, padding_starts
from chainrule.neural.scoring import batches_of, pad, pieces_of
from chainrule.protocol import END, TextVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network

_TOGETHER = 1 << 9  # tokens in a batch: hidden states then fit a processor's cache
_TOGETHER_BFLOAT16 = 1 << 11  # more, since each shape of a product has to be prepared first


def token_vectors(
    network: Network,
    sequences: Sequence[Int32[ndarray, " tokens"]],
    layer: int | None = None,
    *,
    bfloat16: bool = False,
) -> list[Float32[ndarray, "tokens D"]]:
    """Return a vector for each token of each sequence, as `vectors_of_read`, but without those of the markers around
    it.
    """
    read = vectors_of_read(network, sequences, layer, bfloat16=bfloat16)
    return [vectors[1 : len(sequence) + 1] for sequence, vectors in zip(sequences, read, strict=True)]


@torch.inference_mode()
def vectors_of_read(
    network: Network,
    sequences: Sequence[Int32[ndarray, " tokens"]],
    layer: int | None = None,
    *,
    bfloat16: bool = False,
) -> list[Float32[ndarray, "read D"]]:
    """Return a vector for each token that is read for a sequence, markers included. Each sequence is a separate text.

    layer: 0 for the embedding, without context; from 1 on, the hidden states of that layer; None for the last layer.
    bfloat16: whether the network computes in bfloat16.
    Raises SettingError if there is no such layer, or an id is outside the vocabulary; ModelFormatError if a vector is
    not finite.
    """
    for sequence in sequences:
        check_tokens(sequence, network.vocabulary_size)
    rows = [add_boundaries(sequence, network) for sequence in sequences]
    width = _hidden(network, torch.full((1, 1), END, device=network.device), None, layer).shape[-1]
    all_vectors = [np.empty((len(row), width), np.float32) for row in rows]
    pieces = pieces_of([len(row) for row in rows], network)
    for batch in batches_of(pieces, _TOGETHER_BFLOAT16 if bfloat16 else _TOGETHER):
        tokens = pad([rows[row][begin:end] for row, begin, _, end in batch], END)
        lengths = [end - begin for _, begin, _, end in batch]
        starts = padding_starts(lengths, network.device) if network.encoder.is_bidirectional else None
        with torch.autocast(network.device.type, torch.bfloat16, enabled=bfloat16):
            states = _hidden(network, torch.from_numpy(tokens).to(network.device), starts, layer)
        hidden = states.float().cpu().numpy()
        if not np.isfinite(hidden).all():
            raise ModelFormatError(
                "the network computes vectors that are not finite, so its file is damaged; check it with chainrule "
                "verify, or train it again"
            )
        for vectors, (row, begin, first, end) in zip(hidden, batch, strict=True):
            all_vectors[row][first:end] = vectors[first - begin : end - begin]
        pause()
    return all_vectors


def _hidden(
    network: Network, tokens: Int64[Tensor, "B T"], starts: Bool[Tensor, "B T"] | None, layer: int | None
) -> Float[Tensor, "B T D"]:
    """Return the hidden states of a layer; those of the last one are as the output reads them.

    starts: as for `Encoder`. Raises SettingError.
    """
    x = network.embed(tokens)
    last, hidden = 0, x
    layers = chain([x], network.encoder.hidden_layers(x, starts))
    for last, hidden in enumerate(layers):
        if last == layer:
            return hidden
    if layer is not None:
        raise SettingError(f"there is no layer {layer}; expected 0 (the embedding) to {last} (the last layer)")
    return hidden


class NetworkVectors:
    """The methods of an Embedder whose network has learned no vector of whole texts."""

    network: Network

    def vectors(
        self, sequences: Sequence[Int32[ndarray, " tokens"]], layer: int | None = None, *, bfloat16: bool = False
    ) -> list[Float32[ndarray, "tokens D"]]:
        """Implement `Embedder.vectors`."""
        return token_vectors(self.network, sequences, layer, bfloat16=bfloat16)

    def text_vectors(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        layer: int | None = None,
        *,
        dimensions: int | None = None,
        bfloat16: bool = False,
    ) -> TextVectors | None:
        """Implement `Embedder.text_vectors`."""
        return None

    @torch.inference_mode()
    def static_vectors(self) -> Float32[ndarray, "vocab D"]:
        """Implement `Embedder.static_vectors`."""
        tokens = torch.arange(self.network.vocabulary_size, device=self.network.device)
        return self.network.embedding(tokens).float().cpu().numpy()


class TextEncoder(NetworkVectors):
    """An Embedder that pools token vectors to a vector for a whole text (Reimers and Gurevych 2019)."""

    def __init__(self, network: Network) -> None:
        """Set the network to evaluation mode, without dropout."""
        assert isinstance(network.config, TextEncoderConfig)
        self.network, self.config = network.eval(), network.config
        self.vocabulary_size = network.vocabulary_size

    def text_vectors(
        self,
        sequences: Sequence[Int32[ndarray, " tokens"]],
        layer: int | None = None,
        *,
        dimensions: int | None = None,
        bfloat16: bool = False,
    ) -> TextVectors:
        """Implement `Embedder.text_vectors`. The vectors of an inner layer go through no projection."""
        most = self.config.context if self.config.most_tokens is None else self.config.most_tokens
        most -= 1 if self.config.closed_by is None else 2  # the token before a text, and that after it
        read = vectors_of_read(self.network, [sequence[:most] for sequence in sequences], layer, bfloat16=bfloat16)
        vectors = np.stack([self._pooled(vectors) for vectors in read]) if read else np.empty((0, 0), np.float32)
        if layer is None and isinstance(self.network.output, Projection):
            vectors = self._projected(vectors)
        if dimensions is not None and dimensions > vectors.shape[1]:
            raise SettingError(
                f"dimensions is {dimensions:,}, and this encoder's vectors have {vectors.shape[1]:,}; take at most that"
            )
        vectors = vectors[:, :dimensions]
        if self.config.unit_length:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
        return TextVectors(vectors, np.array([len(sequence) > most for sequence in sequences], np.bool_))

    def _pooled(self, vectors: Float32[ndarray, "read D"]) -> Float32[ndarray, " D"]:
        """Return the pooled vector of all tokens that were read for a text, markers included."""
        match self.config.text_pooling:
            case "first":
                return vectors[0]
            case "last":
                return vectors[-1]
            case "max":
                return np.asarray(vectors.max(0))
            case "mean-sqrt":
                return np.asarray(vectors.sum(0) / np.sqrt(np.float32(len(vectors))))
            case "weighted-mean":
                weights = np.arange(1, len(vectors) + 1, dtype=np.float32)
                return np.asarray(weights / weights.sum() @ vectors)
            case _:
                return np.asarray(vectors.mean(0))

    @torch.inference_mode()
    def _projected(self, vectors: Float32[ndarray, "texts D"]) -> Float32[ndarray, "texts P"]:
        """Return vectors of texts after the linear layers."""
        found = self.network.output(torch.from_numpy(vectors).to(self.network.device))
        return np.asarray(found.float().cpu().numpy())
