"""Attention maps: the weights of every attention layer of a network, for one text, or for a source and its target.

The layers record them while they read the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from chainrule.errors import SettingError
from chainrule.neural.document_boundaries import framed
from chainrule.neural.encoded_source import WeightLists
from chainrule.neural.encoders.recurrent import Recurrent
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.text_encoder import TextEncoder
from chainrule.neural.two_sided_model import TwoSidedModel
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.conditional_model import ConditionalModel
    from chainrule.protocol import Embedder, Scorer

    Tokens = Int32[ndarray, " tokens"]

_OfNetworks = NeuralModel | TwoSidedModel | TextEncoder
Sides = Literal["text", "own past", "source", "target", "target on source"]


class LayerWeights(NamedTuple):
    """The attention weights of one layer."""

    sides: Sides  # what attends to what
    layer: int  # from 1
    weights: Float32[ndarray, "heads queries keys"]


@torch.inference_mode()
def maps_of_text(model: Scorer | Embedder, tokens: Tokens) -> tuple[Int64[ndarray, " read"], list[LayerWeights]]:
    """The tokens that the network reads for a text, </s> included, and its attention maps over them.

    Raises SettingError if the network has no attention, or the text is longer than its context.
    """
    encoder = model.network.encoder if isinstance(model, _OfNetworks) else None
    is_recurrent = isinstance(encoder, Recurrent) and encoder.attends_to_itself
    if (
        not isinstance(model, _OfNetworks)
        or not isinstance(encoder, Transformer | Recurrent)
        or (isinstance(encoder, Recurrent) and not is_recurrent)
    ):
        raise SettingError(
            "this model has no attention to show; expected a Transformer, a recurrent network with intra_attention, a "
            "model of pairs, or a captioner"
        )
    read = framed(tokens, model.network)
    if encoder.context is not None and len(read) > encoder.context:
        most = encoder.context - len(read) + len(tokens)
        raise SettingError(
            f"the text has {len(tokens):,} tokens, but the network reads at most {most:,} at once; shorten it"
        )
    inputs = torch.from_numpy(read)[None].to(model.network.device)
    return read, _numbered("own past" if is_recurrent else "text", encoder.attention_maps(model.network.embed(inputs)))


@torch.inference_mode()
def maps_of_pair(model: ConditionalModel, source: Tokens, target: Tokens) -> list[LayerWeights]:
    """The maps of a source, with its </s>, and of a target, after </s>. Raises SettingError without attention."""
    network = model.network
    if network.config.attention == "none":
        raise SettingError(
            "this model has no attention to show; expected attention other than none in its configuration"
        )
    rows_of_tokens = ([*source.tolist(), END], [END, *target.tolist()])
    tokens, inputs = (torch.tensor([row], device=network.device) for row in rows_of_tokens)
    own: list[Tensor] = []
    source_read = network.read(tokens, torch.ones_like(tokens, dtype=torch.bool), own)
    on_source: list[Tensor] = []
    on_target: list[Tensor] = []
    rows = source_read.at(torch.zeros_like(inputs[:, 0]), WeightLists(on_source, on_target))
    network.decoder(network.embed(inputs), None, None, rows)
    across = [torch.cat(steps, 2) for steps in _by_layer(on_source, len(rows.keys_and_values))]
    return [
        *_numbered("target on source", across),
        *_numbered("source", own),
        *_numbered("target", on_target),
    ]


def _by_layer(recorded: list[Tensor], layers: int) -> list[list[Tensor]]:
    """The maps of each layer, step by step: recurrent decoders record one for each step."""
    return [recorded[layer::layers] for layer in range(layers)]


def _numbered(sides: Sides, maps: list[Tensor]) -> list[LayerWeights]:
    return [LayerWeights(sides, layer, weights[0].float().cpu().numpy()) for layer, weights in enumerate(maps, 1)]
