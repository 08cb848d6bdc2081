"""Networks whose vectors of tokens begin as those of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from chainrule.errors import SettingError
from chainrule.neural.config.network import LayersConfig

if TYPE_CHECKING:
    from chainrule.neural.network import Network
    from chainrule.training.options import InitialVectors


def set_vectors(network: Network, initial: InitialVectors) -> None:
    """The vectors of the tokens that were found become what they are there; the others are drawn with their spread.

    Raises SettingError where none was found, or they are of another width.
    """
    vectors, weight, config = initial.vectors, network.embedding.weight, network.config
    found, width = vectors.rows.shape
    if not found:
        raise SettingError(
            f"{vectors.name}: it has no word of the vocabulary; give vectors of the text's language, and cut the text "
            "into words as theirs was (tokenizer='word', normalise='lower')"
        )
    if width != config.input_width:
        name = "embedding_width" if isinstance(config, LayersConfig) else "width"
        raise SettingError(
            f"{vectors.name}: its vectors have {width} numbers, those of the network {config.input_width}; "
            f"say {name}={width}"
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
