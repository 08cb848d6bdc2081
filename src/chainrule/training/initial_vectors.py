"""Initialises a network's token vectors from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.errors import SettingError
from chainrule.neural.config.network import LayersConfig

if TYPE_CHECKING:
    from torch import Tensor

    from chainrule.neural.network import Network
    from chainrule.training.options import InitialVectors


def set_vectors(network: Network, initial: InitialVectors) -> None:
    """Sets a network's token vectors, as `set_rows` does. Raises SettingError."""
    setting = "embedding_width" if isinstance(network.config, LayersConfig) else "width"
    set_rows(network.embedding.weight, initial, setting, scale=network.embedding.scale)


def set_rows(weight: Tensor, initial: InitialVectors, setting: str, *, scale: float = 1.0) -> None:
    """Copies the vectors that the file has; draws the others with the same standard deviation.

    weight: (V, D). setting: the name of the setting for D. scale: what the network multiplies its vectors by; the
    copies are divided by it, so that the network computes with those of the file. Raises SettingError if the file has
    none of the tokens, or its vectors have another width.
    """
    vectors = initial.vectors
    count, width = vectors.rows.shape
    if not count:
        raise SettingError(
            f"{vectors.name}: it has no word of the vocabulary; give vectors of the text's language, and cut the text "
            "into words as theirs was (tokenizer='word', normalise='lower')"
        )
    if width != weight.shape[1]:
        raise SettingError(
            f"{vectors.name}: its vectors have {width} numbers, those of the network {weight.shape[1]}; "
            f"set {setting}={width}"
        )
    with torch.no_grad():
        weight.normal_(std=float(vectors.rows.std()) / scale)
        weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.rows) / scale
    weight.requires_grad_(not initial.fixed)


def coverage_of(initial: InitialVectors, vocabulary_size: int) -> str:
    """A sentence that says how much of the vocabulary the file covers."""
    vectors, count = initial.vectors, len(initial.vectors.ids)
    kept = "; no vector is trained" if initial.fixed else ""
    return f"{vectors.name} has {count:,} of {vocabulary_size:,} tokens ({count / vocabulary_size:.0%}){kept}"
