"""The settings of networks; free of torch, so that the command line can show them at once.

A field says in its help what it is, in a few words; the docstring of a configuration is the help of its verb, and
folded for a terminal.
"""

from chainrule.neural.config.bag import BagConfig
from chainrule.neural.config.bilinear import BilinearConfig
from chainrule.neural.config.convolution import ConvolutionConfig
from chainrule.neural.config.feedforward import FeedforwardConfig
from chainrule.neural.config.grid import GridConfig
from chainrule.neural.config.network import NetworkConfig, settings_of
from chainrule.neural.config.presets import PRESETS, preset
from chainrule.neural.config.recurrent import RecurrentConfig
from chainrule.neural.config.text_encoder import TextEncoderConfig
from chainrule.neural.config.transformer import TransformerConfig, gpt2, llama, modern, palm, vaswani
from chainrule.neural.config.two_sided import MaskedConfig, MaskedRecurrentConfig, TwoSidedConfig, bert

__all__ = [
    "NETWORKS",
    "PRESETS",
    "TWO_SIDED",
    "BagConfig",
    "BilinearConfig",
    "ConvolutionConfig",
    "FeedforwardConfig",
    "GridConfig",
    "MaskedConfig",
    "MaskedRecurrentConfig",
    "NetworkConfig",
    "RecurrentConfig",
    "TextEncoderConfig",
    "TransformerConfig",
    "TwoSidedConfig",
    "bert",
    "gpt2",
    "llama",
    "modern",
    "palm",
    "preset",
    "settings_of",
    "vaswani",
]

# By the name of the family: each is an encoder in `chainrule.neural.encoders`, and a verb under `chainrule train`.
NETWORKS: dict[str, type[NetworkConfig]] = {
    "bilinear": BilinearConfig,
    "bag": BagConfig,
    "feedforward": FeedforwardConfig,
    "convolution": ConvolutionConfig,
    "recurrent": RecurrentConfig,
    "grid": GridConfig,
    "transformer": TransformerConfig,
}

# Those that see both sides of a token, and are no language models.
TWO_SIDED: dict[str, type[NetworkConfig]] = {
    "masked": MaskedConfig,
    "masked-recurrent": MaskedRecurrentConfig,
    "two-sided": TwoSidedConfig,
}
