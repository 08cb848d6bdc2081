"""Linear layers after the pooling of a sentence encoder, which predicts nothing.

Legend: D width of the network, P of the last layer.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from torch import Tensor, nn

from chainrule.neural.layers.output import NoOutput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float


class Projection(NoOutput):
    """Linear layers from the vector of a text to the one that a sentence encoder gives."""

    def __init__(self, width: int, widths: Sequence[int], *, biases: bool, activation: str) -> None:
        super().__init__()
        pairs = itertools.pairwise([width, *widths])
        self.layers = nn.ModuleList(nn.Linear(before, after, bias=biases) for before, after in pairs)
        self.is_bounded = activation == "tanh"

    def forward(self, vectors: Float[Tensor, "texts D"]) -> Float[Tensor, "texts P"]:
        for layer in self.layers:
            vectors = layer(vectors).tanh() if self.is_bounded else layer(vectors)
        return vectors
