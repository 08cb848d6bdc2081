"""Attention maps of a network; gates, cells and hidden values of recurrent layers, token by token.

Attention maps are the weights of every attention layer for one text, or for a source and its target; the layers record
them while they read. Gates are computed by the textbook cells of `neural/layers/cells.py`.

Legend: T time, E width of the input, D width of a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.embedding import TextEncoder
from chainrule.neural.encoders.recurrent import IntraAttentionLSTM, Recurrent
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.cells import Weights, gru_gates, lstm_gates, rnn
from chainrule.neural.network import add_boundaries, check_length

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.protocol import Embedder, Scorer

    Tokens = Int32[ndarray, " tokens"]
    Values = dict[str, Float[Tensor, "T D"]]

_OfNetworks = NeuralModel | BidirectionalModel | TextEncoder
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
    network = attending_network(model)
    check_length(network, len(tokens))
    encoder, read = cast("Transformer | Recurrent", network.encoder), add_boundaries(tokens, network)
    inputs = torch.from_numpy(read)[None].to(network.device)
    maps = encoder.attention_maps(network.embed(inputs))
    return read, numbered_maps("own past" if isinstance(encoder, Recurrent) else "text", maps)


def attending_network(model: object) -> Network:
    """The network of a model that attends to a text. Raises SettingError for others."""
    encoder = model.network.encoder if isinstance(model, _OfNetworks) else None
    attends = isinstance(encoder, Transformer) or (isinstance(encoder, Recurrent) and encoder.attends_to_itself)
    if not (isinstance(model, _OfNetworks) and attends):
        raise SettingError(
            "this model has no attention to show; expected a Transformer, a recurrent network with intra_attention, a "
            "seq2seq model, or a captioner"
        )
    return model.network


def numbered_maps(sides: Sides, maps: list[Tensor]) -> list[LayerWeights]:
    """Return the weights of layers, numbered from 1."""
    return [LayerWeights(sides, layer, weights[0].float().cpu().numpy()) for layer, weights in enumerate(maps, 1)]


class LayerGates(NamedTuple):
    """What one layer computes at each token.

    values: by name. An LSTM has f, i, o (gates), g (the candidate), c (the cell) and h (hidden); a GRU r, z (gates), n
    (the candidate) and h; a simple network h.
    """

    name: str
    values: dict[str, Float32[ndarray, "T D"]]


NO_GATES = (
    "this network has no gates to show; expected a recurrent language model, a classifier of texts with recurrent "
    "layers, or a classifier of pictures; of a Transformer, remove='zero' shows what its heads do"
)


@torch.inference_mode()
def gates_of_text(model: object, tokens: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], list[LayerGates]]:
    """The tokens that the network reads for a text, and what its layers compute at each.

    model: a recurrent language model. Raises SettingError for others.
    """
    if isinstance(model, NeuralModel) and isinstance(model.network.encoder, Recurrent):
        read = add_boundaries(tokens, model.network)
        vectors = model.network.embed(torch.from_numpy(read)[None].to(model.network.device))[0]
        return read, _of_encoder(model.network.encoder, vectors)
    raise SettingError(NO_GATES)


def _of_encoder(encoder: Recurrent, x: Float[Tensor, "T E"]) -> list[LayerGates]:
    layers = []
    for number, layer in enumerate(encoder.layers, 1):
        values = gates(cast("nn.RNNBase | IntraAttentionLSTM", layer), x)
        layers.append(gates_as_arrays(f"layer {number}", values))
        hidden = values["h"]
        x = hidden + x if encoder.residual and hidden.shape == x.shape else hidden
    return layers


def gates(layer: nn.RNNBase | IntraAttentionLSTM, x: Float[Tensor, "T E"]) -> Values:
    """All values that a recurrent layer of torch computes from a zero state on, by name as in `LayerGates`."""
    if isinstance(layer, IntraAttentionLSTM):
        recorded: list[dict[str, Tensor]] = []
        layer(x[None], layer.start(1), gates_out=recorded)
        return {name: torch.cat([step[name] for step in recorded]) for name in recorded[0]}
    weights = Weights(*(cast("Tensor", getattr(layer, name)) for name in _WEIGHTS))
    h = memory = x.new_zeros(1, layer.hidden_size)
    steps = []
    for row in torch.split(x, 1):
        if isinstance(layer, nn.LSTM):
            step = lstm_gates(row, h, memory, weights)
            memory = step["c"]
        elif isinstance(layer, nn.GRU):
            step = gru_gates(row, h, weights)
        else:
            step = {"h": rnn(row, h, weights, torch.tanh if layer.mode == "RNN_TANH" else torch.relu)}
        h = step["h"]
        steps.append(step)
    return {name: torch.cat([step[name] for step in steps]) for name in steps[0]}


_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")


def gates_as_arrays(name: str, values: Values) -> LayerGates:
    """Return the values of a layer as arrays."""
    return LayerGates(name, {key: value.float().cpu().numpy() for key, value in values.items()})
