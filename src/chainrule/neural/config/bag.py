"""Of bags of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import setting
from chainrule.neural.config.network import (
    CONTEXT,
    LAYERS,
    MAX_CONTEXT,
    MAX_LAYERS,
    MAX_WIDTH,
    Activation,
    LayersConfig,
)


@dataclass(frozen=True, kw_only=True)
class BagConfig(LayersConfig):
    """A deep averaging network: blind to the order of what it has read.

    The average of the vectors of tokens, and layers on it (Iyyer 2015).
    """

    layers: int = setting(2, LAYERS, least=1, below=MAX_LAYERS)
    width: int = setting(256, "numbers in a layer", least=1, below=MAX_WIDTH)
    window: int | None = setting(3, "tokens that are averaged; nothing: all so far", least=1, below=MAX_CONTEXT)
    activation: Activation = setting("relu", "of the layers")
    dropout: float = setting(0.0, "share of numbers dropped of what each layer gives", least=0, below=1)
    context: int = setting(128, CONTEXT, least=1, below=MAX_CONTEXT)
