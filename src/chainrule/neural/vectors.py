"""The vectors that a network gives to the tokens of texts, in their context, from any of its layers.

Texts of about the same length are read together, so that little is computed for nothing.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import torch

from chainrule.base.tokens import check_tokens
from chainrule.errors import ModelFormatError, SettingError
from chainrule.neural.framing import framed, padding
from chainrule.neural.scoring import batches_of, padded, pieces_of
from chainrule.protocol import END

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.network import Network

_TOGETHER = 1 << 9  # tokens in a batch: what the layers give still lies in a processor's cache
_TOGETHER_SHORT = 1 << 11  # in bfloat16: so many that a product is worth preparing


@torch.inference_mode()
def token_vectors(
    network: Network,
    sequences: Sequence[Int32[ndarray, " tokens"]],
    layer: int | None = None,
    *,
    bfloat16: bool = False,
) -> list[Float32[ndarray, "tokens D"]]:
    """A vector for each token of each sequence, a text of its own, after it is read.

    layer: 0: of the tokens themselves, whatever stands around them; from 1 on: what that layer gives; None: the last.
    bfloat16: whether the network computes in it.
    Raises SettingError where there is no such layer, or an id is outside the vocabulary; ModelFormatError where the
    network gives no numbers.
    """
    for sequence in sequences:
        check_tokens(sequence, network.vocabulary_size)
    rows = [framed(sequence, network) for sequence in sequences]
    width = _hidden(network, torch.full((1, 1), END, device=network.device), None, layer).shape[-1]
    found = [np.empty((len(row), width), np.float32) for row in rows]
    pieces = pieces_of([len(row) for row in rows], network.encoder)
    for batch in batches_of(pieces, _TOGETHER_SHORT if bfloat16 else _TOGETHER):
        tokens = padded([rows[row][begin:end] for row, begin, _, end in batch], END)
        lengths = [end - begin for _, begin, _, end in batch]
        starts = padding(lengths, network.device) if network.encoder.is_bidirectional else None
        with torch.autocast(network.device.type, torch.bfloat16, enabled=bfloat16):
            given = _hidden(network, torch.from_numpy(tokens).to(network.device), starts, layer)
        hidden = given.float().cpu().numpy()
        if not np.isfinite(hidden).all():
            raise ModelFormatError(
                "the network gives vectors that are no numbers; its file is damaged: try chainrule verify, or make it "
                "again"
            )
        for vectors, (row, begin, first, end) in zip(hidden, batch, strict=True):
            found[row][first:end] = vectors[first - begin : end - begin]
    return [vectors[1 : len(sequence) + 1] for sequence, vectors in zip(sequences, found, strict=True)]


@torch.inference_mode()
def static_vectors(network: Network) -> Float32[ndarray, "vocab D"]:
    """The vector of each token of the vocabulary, whatever stands around it: layer 0."""
    return network.embedding(torch.arange(network.vocabulary_size, device=network.device)).float().cpu().numpy()


def _hidden(network: Network, tokens: Tensor, starts: Tensor | None, layer: int | None) -> Tensor:
    """What a layer gives: (B, T) -> (B, T, D). starts: as the encoder's. Raises SettingError."""
    x = network.embed(tokens)
    number, found = 0, x
    for number, found in enumerate(chain([x], network.encoder.hidden_layers(x, starts))):
        if number == layer:
            return found
    if layer is not None:
        raise SettingError(f"there is no layer {layer}; expected 0, the vectors of tokens alone, to {number}, the last")
    return found
