"""Attention maps of a source and its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.cross_attention import WeightLists
from chainrule.features.seq2seq.network.model import batch_sources
from chainrule.neural.inspection import numbered_maps
from chainrule.protocol import END

if TYPE_CHECKING:
    from torch import Tensor

    from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
    from chainrule.neural.inspection import LayerWeights, Tokens


@torch.inference_mode()
def maps_of_pair(model: NeuralSeq2SeqModel, source: Tokens, target: Tokens) -> list[LayerWeights]:
    """Return the maps of a source, with its </s>, and of a target, after </s>, without what else is read around them.

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
        *numbered_maps("target on source", across),
        *numbered_maps("source", own),
        *numbered_maps("target", on_target),
    ]


def _by_layer(recorded: list[Tensor], layers: int) -> list[list[Tensor]]:
    """Return the maps of each layer, step by step: recurrent decoders record one for each step."""
    return [recorded[layer::layers] for layer in range(layers)]
