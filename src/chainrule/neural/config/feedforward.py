"""Of feed-forward networks."""

from __future__ import annotations

from dataclasses import dataclass

from chainrule.base.options import setting
from chainrule.errors import SettingError
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
class FeedforwardConfig(LayersConfig):
    """A feed-forward network over the last few tokens: a neural n-gram model.

    The vectors of the tokens side by side, and layers on them (Bengio 2003).
    """

    layers: int = setting(1, LAYERS, least=1, below=MAX_LAYERS)
    width: int = setting(256, "numbers in a layer", least=1, below=MAX_WIDTH)
    window: int = setting(8, "tokens that a prediction looks back", least=1, below=MAX_CONTEXT)
    activation: Activation = setting("relu", "of the layers; tanh: Bengio's")
    direct: bool = setting(False, "the output reads the vectors of tokens, too, past the layers")
    dropout: float = setting(0.0, "share of numbers dropped of what each layer gives", least=0, below=1)
    context: int = setting(128, CONTEXT, least=1, below=MAX_CONTEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direct and self.tied:
            raise SettingError(
                "direct connections make the output wider than the vectors of tokens; choose one of "
                "them, or tied weights"
            )

    @property
    def hidden_width(self) -> int:
        """Of the last layer."""
        return super().output_width

    @property
    def output_width(self) -> int:
        return self.hidden_width + self.direct * self.window * self.input_width
