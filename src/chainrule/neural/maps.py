"""Where a network looks: the weights of every attention in it, for one text, or for a source and its target.

They come from the layers themselves while these read the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch

from chainrule.errors import SettingError
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.framing import framed
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.source import WeightLists
from chainrule.neural.two_sided_model import TwoSidedModel
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float32, Int32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.conditional_model import ConditionalModel
    from chainrule.protocol import Scorer

    Tokens = Int32[ndarray, " tokens"]

Sides = Literal["text", "source", "target", "target on source"]


class Weights(NamedTuple):
    """Of one layer, (H, T, S). sides: what looks at what; layer: from 1."""

    sides: Sides
    layer: int
    weights: Float32[ndarray, "heads queries keys"]


@torch.inference_mode()
def maps_of_text(model: Scorer, tokens: Tokens) -> tuple[Int64[ndarray, " read"], list[Weights]]:
    """What the network reads of a text, its </s> too, and where it looks in that.

    Raises SettingError where it has no attention, or the text is longer than it looks.
    """
    encoder = model.network.causal if isinstance(model, NeuralModel | TwoSidedModel) else None
    if not isinstance(model, NeuralModel | TwoSidedModel) or not isinstance(encoder, Transformer):
        raise SettingError("this model has no attention to be shown; expected a Transformer, or a model of pairs")
    read = framed(tokens, model.network)
    if encoder.context is not None and len(read) > encoder.context:
        most = encoder.context - len(read) + len(tokens)
        raise SettingError(
            f"the text has {len(tokens):,} tokens, and the network looks at {most:,} at once; shorten it"
        )
    inputs = torch.from_numpy(read)[None].to(model.network.device)
    return read, _numbered("text", encoder.attention_maps(model.network.embedded(inputs)))


@torch.inference_mode()
def maps_of_pair(model: ConditionalModel, source: Tokens, target: Tokens) -> list[Weights]:
    """Of a source with its </s>, and of </s> and a target. Raises SettingError where the model has no attention."""
    network = model.network
    if network.config.attention == "none":
        raise SettingError("a model without attention has no maps to be shown")
    given, beginning = ([*source.tolist(), END], [END, *target.tolist()])
    tokens, inputs = (torch.tensor([row], device=network.device) for row in (given, beginning))
    own: list[Tensor] = []
    read = network.read(tokens, torch.ones_like(tokens, dtype=torch.bool), own)
    weights_out = WeightLists([], [])
    network.writer(network.embedding(inputs), None, None, read.at(torch.zeros_like(inputs[:, 0]), weights_out))
    across = [torch.cat(steps, 2) for steps in _by_layer(weights_out.source, len(read.keys_and_values))]
    return [
        *_numbered("target on source", across),
        *_numbered("source", own),
        *_numbered("target", weights_out.target),
    ]


def _by_layer(found: list[Tensor], layers: int) -> list[list[Tensor]]:
    """What was put down layer by layer, once for each call: recurrent decoders go step by step."""
    return [found[layer::layers] for layer in range(layers)]


def _numbered(sides: Sides, maps: list[Tensor]) -> list[Weights]:
    return [Weights(sides, layer, weights[0].float().cpu().numpy()) for layer, weights in enumerate(maps, 1)]
