"""The engine of a network: a language model, one that sees both sides, or a text encoder, as its settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.neural.config import TWO_SIDED, TextEncoderConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.neural.text_encoder import TextEncoder
from chainrule.neural.two_sided_model import TwoSidedModel

if TYPE_CHECKING:
    from chainrule.neural.network import Network

    Engine = NeuralModel | TwoSidedModel | TextEncoder


def engine_of(network: Network) -> Engine:
    """A network with the interface of what it can do."""
    if isinstance(network.config, tuple(TWO_SIDED.values())):
        return TwoSidedModel(network)
    return TextEncoder(network) if isinstance(network.config, TextEncoderConfig) else NeuralModel(network)
