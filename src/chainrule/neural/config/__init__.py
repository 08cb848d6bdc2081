"""Settings of networks and known architectures by name (`preset`); does not import torch, so that help is quick.

A field says in its help what it is, in a few words; the docstring of a configuration is the help of its verb, and is
folded for a terminal.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from chainrule.base.options import help_of
from chainrule.errors import SettingError
from chainrule.neural.config.bidirectional import (
    BidirectionalConfig,
    MaskedConfig,
    MaskedRecurrentConfig,
    TextEncoderConfig,
    bert,
)
from chainrule.neural.config.language_models import (
    BagConfig,
    BilinearConfig,
    ConvolutionConfig,
    FeedforwardConfig,
    RecurrentConfig,
)
from chainrule.neural.config.network import NetworkConfig, settings_of
from chainrule.neural.config.presets import gpt2, llama, modern, palm, vaswani
from chainrule.neural.config.transformer import TransformerConfig

if TYPE_CHECKING:
    from collections.abc import Callable

PRESETS: dict[str, Callable[[], TransformerConfig]] = {
    "vaswani": vaswani,
    "gpt2": gpt2,
    "palm": palm,
    "llama": llama,
    "modern": modern,
    "bert": bert,
}


def preset(name: str, **changes: Any) -> TransformerConfig:
    """Return the choices of a known architecture, with some of its fields changed.

    bert gives a MaskedConfig. Raises SettingError.

    good:  preset("gpt2", layers=12, width=768, heads=12, context=1024)
    """
    if name not in PRESETS:
        raise SettingError(f"there is no preset {name!r}; expected one of {', '.join(PRESETS)}")
    config = PRESETS[name]()
    if unknown := sorted(changes.keys() - {each.name for each in fields(config)}):
        raise SettingError(f"a {type(config).__name__} has no {unknown[0]}; it has {', '.join(help_of(type(config)))}")
    return type(config)(**{name: getattr(config, name) for name in config.given} | changes)


__all__ = [
    "PRESETS",
    "BagConfig",
    "BidirectionalConfig",
    "BilinearConfig",
    "ConvolutionConfig",
    "FeedforwardConfig",
    "MaskedConfig",
    "MaskedRecurrentConfig",
    "NetworkConfig",
    "RecurrentConfig",
    "TextEncoderConfig",
    "TransformerConfig",
    "bert",
    "gpt2",
    "llama",
    "modern",
    "palm",
    "preset",
    "settings_of",
    "vaswani",
]
