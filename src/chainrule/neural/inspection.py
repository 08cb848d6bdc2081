"""Attention maps of a network, and the gates, cells and hidden values of recurrent layers, token by token.

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
from chainrule.neural.classification.classifier import ScratchClassifier
from chainrule.neural.classification.texts import RecurrentLayers
from chainrule.neural.embedding import TextEncoder
from chainrule.neural.encoders.recurrent import IntraAttentionLSTM, Recurrent
from chainrule.neural.encoders.transformer import Transformer
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.layers.cells import Weights, gru_gates, lstm_gates, rnn
from chainrule.neural.layers.cross_attention import WeightLists
from chainrule.neural.network import add_boundaries
from chainrule.neural.seq2seq.model import batch_sources
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    from chainrule.neural.seq2seq.model import NeuralSeq2SeqModel
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
    encoder = model.network.encoder if isinstance(model, _OfNetworks) else None
    is_recurrent = isinstance(encoder, Recurrent) and encoder.attends_to_itself
    if (
        not isinstance(model, _OfNetworks)
        or not isinstance(encoder, Transformer | Recurrent)
        or (isinstance(encoder, Recurrent) and not is_recurrent)
    ):
        raise SettingError(
            "this model has no attention to show; expected a Transformer, a recurrent network with intra_attention, a "
            "seq2seq model, or a captioner"
        )
    read = add_boundaries(tokens, model.network)
    if encoder.context is not None and len(read) > encoder.context:
        most = encoder.context - len(read) + len(tokens)
        raise SettingError(
            f"the text has {len(tokens):,} tokens, but the network reads at most {most:,} at once; shorten it"
        )
    inputs = torch.from_numpy(read)[None].to(model.network.device)
    return read, _numbered("own past" if is_recurrent else "text", encoder.attention_maps(model.network.embed(inputs)))


@torch.inference_mode()
def maps_of_pair(model: NeuralSeq2SeqModel, source: Tokens, target: Tokens) -> list[LayerWeights]:
    """The maps of a source, with its </s>, and of a target, after </s>, without what else is read around them.

    Raises SettingError without attention.
    """
    network = model.network
    if network.config.attention == "none":
        raise SettingError(
            "this model has no attention to show; expected attention other than none in its configuration"
        )
    config, batch = network.config, batch_sources([source], network.config)
    tokens, inputs = (torch.tensor(rows, device=network.device) for rows in (batch.inputs, [[END, *target.tolist()]]))
    own: list[Tensor] = []
    source_read = network.read(tokens, torch.ones_like(tokens, dtype=torch.bool), own)
    on_source: list[Tensor] = []
    on_target: list[Tensor] = []
    rows = source_read.at(torch.zeros_like(inputs[:, 0]), WeightLists(on_source, on_target))
    network.decode(network.embed(inputs), None, None, rows)
    at, on = len(config.before_source), len(config.before_target)
    own, on_target = ([one[:, :, by:, by:] for one in maps] for maps, by in ((own, at), (on_target, on)))
    own = [one[:, :, : len(source) + 1, : len(source) + 1] for one in own]
    on_source = [one[:, :, on:, at : at + len(source) + 1] for one in on_source]
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


class LayerGates(NamedTuple):
    """What one layer computes at each token.

    values: by name. An LSTM has f, i, o (gates), g (the candidate), c (the cell) and h (hidden); a GRU r, z (gates), n
    (the candidate) and h; a simple network h.
    """

    name: str
    values: dict[str, Float32[ndarray, "T D"]]


@torch.inference_mode()
def gates_of_text(model: object, tokens: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], list[LayerGates]]:
    """The tokens that the network reads for a text, and what its layers compute at each.

    model: a recurrent language model, or a classifier of texts with recurrent layers. Raises SettingError for others,
    and if there is nothing to read.
    """
    if isinstance(model, NeuralModel) and isinstance(model.network.encoder, Recurrent):
        read = add_boundaries(tokens, model.network)
        vectors = model.network.embed(torch.from_numpy(read)[None].to(model.network.device))[0]
        return read, _of_encoder(model.network.encoder, vectors)
    if isinstance(model, ScratchClassifier) and isinstance(getattr(model.body, "layers", None), RecurrentLayers):
        read = tokens.astype("int64")
        if not read.size:
            raise SettingError("the text has no tokens; give one with a token in it at least")
        return read, _of_layers(model.body.layers, model.body.vectors(torch.from_numpy(read)))
    raise SettingError(
        "this network has no gates to show; expected a recurrent language model, a classifier of texts with "
        "recurrent layers, or a classifier of pictures; of a Transformer, remove='zero' shows what its heads do"
    )


def _of_encoder(encoder: Recurrent, x: Float[Tensor, "T E"]) -> list[LayerGates]:
    layers = []
    for number, layer in enumerate(encoder.layers, 1):
        values = gates(cast("nn.RNNBase | IntraAttentionLSTM", layer), x)
        layers.append(_as_arrays(f"layer {number}", values))
        hidden = values["h"]
        x = hidden + x if encoder.residual and hidden.shape == x.shape else hidden
    return layers


def _of_layers(own: RecurrentLayers, x: Float[Tensor, "T E"]) -> list[LayerGates]:
    layers = []
    for number, ahead in enumerate(own.ahead, 1):
        values = gates(cast("nn.RNNBase", ahead), x)
        if not own.is_bidirectional:
            layers.append(_as_arrays(f"layer {number}", values))
            x = values["h"]
            continue
        reverse = gates(cast("nn.RNNBase", own.back[number - 1]), x.flip(0))
        back = {name: value.flip(0) for name, value in reverse.items()}
        layers.append(_as_arrays(f"layer {number}, left to right", values))
        layers.append(_as_arrays(f"layer {number}, right to left", back))
        x = torch.cat((values["h"], back["h"]), -1)
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


def _as_arrays(name: str, values: Values) -> LayerGates:
    return LayerGates(name, {key: value.float().cpu().numpy() for key, value in values.items()})
