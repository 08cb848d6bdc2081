"""Of convolutional networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chainrule.base.options import setting
from chainrule.errors import SettingError
from chainrule.neural.config.network import CONTEXT, MAX_CONTEXT, MAX_LAYERS, MAX_WIDTH, NetworkConfig

Gate = Literal["glu", "gtu", "none"]


@dataclass(frozen=True, kw_only=True)
class ConvolutionConfig(NetworkConfig):
    """A convolutional network: causal, dilated and gated.

    Each layer reads a few earlier positions (Dauphin 2017), further apart
    from layer to layer (van den Oord 2016, Bai 2018).
    """

    layers: int = setting(5, "layers, each added to what goes into it", least=1, below=MAX_LAYERS)
    width: int = setting(128, "numbers in the vector of a token, and in a layer", least=1, below=MAX_WIDTH)
    kernel: int = setting(3, "positions that a layer reads", least=1, below=MAX_CONTEXT)
    dilation: int = setting(2, "each layer's positions are this many times further apart", least=1, below=MAX_CONTEXT)
    gate: Gate = setting("glu", "glu: h sigmoid(g); gtu: tanh(h) sigmoid(g); none: relu(h)")
    dropout: float = setting(0.0, "share of numbers dropped of what each layer gives", least=0, below=1)
    context: int = setting(128, CONTEXT, least=1, below=MAX_CONTEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.reach >= MAX_CONTEXT:
            raise SettingError(
                f"the layers reach {self.reach:,} tokens back; expected less than {MAX_CONTEXT:,}: "
                "lower layers, kernel or dilation"
            )

    @property
    def dilations(self) -> tuple[int, ...]:
        """Of each layer, in tokens."""
        return tuple(self.dilation**layer for layer in range(self.layers))

    @property
    def reach(self) -> int:
        """The tokens that a prediction depends on."""
        return 1 + (self.kernel - 1) * sum(self.dilations)
