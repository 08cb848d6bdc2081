"""The vectors that tell a Transformer where a token stands, for drawing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.errors import SettingError
from chainrule.neural.config import TransformerConfig
from chainrule.neural.positions import Learned, Rotary, Sinusoidal, rotate

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

    from chainrule.neural.network import Network


@torch.inference_mode()
def position_vectors(network: Network) -> Float32[ndarray, "T D"]:
    """The vector of each position of the context; of rotary positions, a vector of ones after its rotation.

    Raises SettingError if the network has no such vectors.
    """
    config = network.config
    if not isinstance(config, TransformerConfig):
        raise SettingError("this network has no position encoding; expected a Transformer")
    positions = torch.arange(config.context)[None]
    if config.positions == "sinusoidal":
        return Sinusoidal(config.width)(positions)[0].numpy()
    if config.positions == "rotary":
        ones = torch.ones(1, config.context, 1, config.rotated_width)
        rotation = Rotary(config.rotated_width, config.rotary_base)(positions, ones)
        return rotate(ones, rotation)[0, :, 0].numpy()
    learned = next((module for module in network.modules() if isinstance(module, Learned)), None)
    if learned is None:
        raise SettingError(
            f"{config.positions} positions have no vectors to draw; expected learned, sinusoidal or rotary ones"
        )
    return learned.vectors[learned.offset : learned.offset + config.context].float().cpu().numpy()
