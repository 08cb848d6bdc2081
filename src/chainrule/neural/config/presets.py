"""Known architectures by name, as functions that return configurations."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from chainrule.base.options import help_of
from chainrule.errors import SettingError
from chainrule.neural.config.transformer import TransformerConfig, gpt2, llama, modern, palm, vaswani
from chainrule.neural.config.two_sided import bert

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
    """The choices of a known architecture, with some of its fields changed.

    bert gives a MaskedConfig. Raises SettingError.

    good:  preset("gpt2", layers=12, width=768, heads=12, context=1024)
    """
    if name not in PRESETS:
        raise SettingError(f"there is no preset {name!r}; expected one of {', '.join(PRESETS)}")
    config = PRESETS[name]()
    if unknown := sorted(changes.keys() - {each.name for each in fields(config)}):
        raise SettingError(f"a {type(config).__name__} has no {unknown[0]}; it has {', '.join(help_of(type(config)))}")
    return replace(config, **changes)
