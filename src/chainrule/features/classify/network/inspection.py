"""What the recurrent layers of a classifier compute at each token of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch

from chainrule.errors import SettingError
from chainrule.features.classify.network.classifier import ScratchClassifier
from chainrule.features.classify.network.texts import RecurrentLayers
from chainrule.neural.inspection import NO_GATES, gates, gates_as_arrays

if TYPE_CHECKING:
    from jaxtyping import Float, Int32, Int64
    from numpy import ndarray
    from torch import Tensor, nn

    from chainrule.neural.inspection import LayerGates


@torch.inference_mode()
def gates_of_classifier(model: object, tokens: Int32[ndarray, " T"]) -> tuple[Int64[ndarray, " T"], list[LayerGates]]:
    """Return the tokens that the network reads for a text, and what its layers compute at each.

    Raises SettingError where it has no recurrent layers, and if there is nothing to read.
    """
    if not isinstance(model, ScratchClassifier) or not isinstance(getattr(model.body, "layers", None), RecurrentLayers):
        raise SettingError(NO_GATES)
    read = tokens.astype("int64")
    if not read.size:
        raise SettingError("the text has no tokens; give one with a token in it at least")
    return read, _of_layers(model.body.layers, model.body.vectors(torch.from_numpy(read)))


def _of_layers(own: RecurrentLayers, x: Float[Tensor, "T E"]) -> list[LayerGates]:
    layers = []
    for number, ahead in enumerate(own.ahead, 1):
        values = gates(cast("nn.RNNBase", ahead), x)
        if not own.is_bidirectional:
            layers.append(gates_as_arrays(f"layer {number}", values))
            x = values["h"]
            continue
        reverse = gates(cast("nn.RNNBase", own.back[number - 1]), x.flip(0))
        back = {name: value.flip(0) for name, value in reverse.items()}
        layers.append(gates_as_arrays(f"layer {number}, left to right", values))
        layers.append(gates_as_arrays(f"layer {number}, right to left", back))
        x = torch.cat((values["h"], back["h"]), -1)
    return layers
