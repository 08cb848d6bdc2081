"""The gates, cells and hidden values of recurrent layers, token by token, computed by the cells of the textbooks.

Legend: T time, E width of the input, D width of a layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.cells import Weights, gru_gates, lstm_gates, rnn
from chainrule.neural.document_boundaries import framed
from chainrule.neural.encoders.intra_attention import IntraAttentionLSTM
from chainrule.neural.encoders.recurrent import Recurrent
from chainrule.neural.labelling.classifier import ScratchClassifier
from chainrule.neural.labelling.text_layers import RecurrentLayers
from chainrule.neural.language_model import NeuralModel

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Int32, Int64
    from numpy import ndarray

    Values = dict[str, Float[Tensor, "T D"]]


class LayerGates(NamedTuple):
    """What one layer computes at each token.

    values: by name. Of an LSTM f, i, o (gates), g (the candidate), c (the cell) and h (hidden); of a GRU r, z (gates),
    n (the candidate) and h; of a simple network h.
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
        read = framed(tokens, model.network)
        vectors = model.network.embed(torch.from_numpy(read)[None].to(model.network.device))[0]
        return read, _of_encoder(model.network.encoder, vectors)
    if isinstance(model, ScratchClassifier) and isinstance(getattr(model.body, "layers", None), RecurrentLayers):
        read = tokens.astype("int64")
        if not read.size:
            raise SettingError("the text has no tokens; give one with a token in it at least")
        return read, _of_layers(model.body.layers, model.body.vectors(torch.from_numpy(read)))
    raise SettingError(
        "this network has no gates to show; expected a recurrent language model, a classifier of texts with "
        "recurrent layers, or a classifier of pictures"
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
    """All that a layer of torch computes from zeros on, by name as in `LayerGates`."""
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
