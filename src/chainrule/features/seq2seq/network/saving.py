"""Seq2seq networks from their settings and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.options import config_from_json
from chainrule.features.seq2seq.network.config import Seq2SeqConfig
from chainrule.features.seq2seq.network.model import NeuralSeq2SeqModel
from chainrule.features.seq2seq.network.network import build_seq2seq
from chainrule.neural.saving import check_layers, filled_network, named_tensors, network_of_shapes

if TYPE_CHECKING:
    from chainrule.neural.saving import Arrays


def shapes_of_pair(config: Seq2SeqConfig, sizes: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of `shapes_of`, for a seq2seq network. sizes: those of the vocabularies of sources and
    targets.
    """
    named = named_tensors(network_of_shapes(lambda: build_seq2seq(config, *sizes)))
    return {name: tuple(tensor.shape) for name, tensor in named.items()}


def put_together_pair(settings: object, arrays: Arrays, sizes: tuple[int, int]) -> NeuralSeq2SeqModel:
    """Return a seq2seq model from its network's settings and arrays, which it uses without a copy.

    sizes: those of the vocabularies of sources and targets. Raises ModelFormatError.
    """
    config: Seq2SeqConfig = config_from_json(Seq2SeqConfig, settings)
    check_layers(config.encoder_layers + config.decoder_layers, arrays)
    return NeuralSeq2SeqModel(filled_network(lambda: build_seq2seq(config, *sizes), arrays))
