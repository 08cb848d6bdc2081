"""Networks whose vectors of tokens begin as those of a file."""

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
    """As `set_rows` for the vectors of a network's tokens. Raises SettingError."""
    setting = "embedding_width" if isinstance(network.config, LayersConfig) else "width"
    set_rows(network.embedding.weight, initial, setting)


def set_rows(weight: Tensor, initial: InitialVectors, setting: str) -> None:
    """The vectors of the tokens that were found become what they are there; the others are drawn with their spread.

    weight: (V, D). setting: the name of what D is set by. Raises SettingError where none was found, or they are of
    another width.
    """
    vectors = initial.vectors
    found, width = vectors.rows.shape
    if not found:
        raise SettingError(
            f"{vectors.name}: it has no word of the vocabulary; give vectors of the text's language, and cut the text "
            "into words as theirs was (tokenizer='word', normalise='lower')"
        )
    if width != weight.shape[1]:
        raise SettingError(
            f"{vectors.name}: its vectors have {width} numbers, those of the network {weight.shape[1]}; "
            f"say {setting}={width}"
        )
    with torch.no_grad():
        weight.normal_(std=float(vectors.rows.std()))
        weight[torch.from_numpy(vectors.ids)] = torch.from_numpy(vectors.rows)
    weight.requires_grad_(not initial.fixed)


def coverage_of(initial: InitialVectors, vocabulary_size: int) -> str:
    """How much of the vocabulary was found, in words."""
    vectors, found = initial.vectors, len(initial.vectors.ids)
    kept = "; no vector is trained" if initial.fixed else ""
    return f"{vectors.name} has {found:,} of {vocabulary_size:,} tokens ({found / vocabulary_size:.0%}){kept}"
