"""The body of networks that label pairs: one body reads both sides, and a layer compares their vectors.

Legend: P pairs, D width of the vectors of sides, C of what compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float

    from chainrule.neural.labelling.classifier import Body

_WIDTH = 50  # as in the paper


class PairBody(nn.Module):
    """sigmoid(W [|a - b|; a * b] + v) of the vectors of two sides (Tai et al. 2015, equation 14).

    What is asked of ratings is the same with the sides exchanged. A label, such as entailment, may have a direction;
    for labels, W reads a and b as well.
    """

    def __init__(self, side: Body[Any], *, is_directed: bool) -> None:
        """side: gives each side one vector."""
        super().__init__()
        self.side: Any = side
        self.is_directed, self.width = is_directed, _WIDTH
        self.compare = nn.Linear((4 if is_directed else 2) * side.width, _WIDTH)

    @property
    def embedding(self) -> nn.Parameter | None:
        embedding: nn.Parameter | None = self.side.embedding
        return embedding

    def forward(self, inputs: Sequence[tuple[Any, Any]]) -> Float[Tensor, "P C"]:
        """As `Body`."""
        a, b = self.side([first for first, _ in inputs] + [second for _, second in inputs]).chunk(2)
        parts = [(a - b).abs(), a * b, *([a, b] if self.is_directed else [])]
        return torch.sigmoid(self.compare(torch.cat(parts, 1)))

    def check(self, item: tuple[Any, Any]) -> None:
        """As `Body`."""
        for own in item:
            self.side.check(own)

    def size(self, item: tuple[Any, Any]) -> int:
        """The size of both sides."""
        return int(self.side.size(item[0]) + self.side.size(item[1]))

    def units(self, item: tuple[Any, Any]) -> int:
        """One: a pair has one vector."""
        return 1
