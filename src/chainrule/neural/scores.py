"""Score functions of attention: how well a query s suits a key h, each by its name.

    dot           s . h                        Luong et al. 2015
    scaled_dot    s . h / root(d)              Vaswani et al. 2017
    general       s . W h                      Luong et al. 2015
    content       b cos(s, h), b learned       Graves et al. 2014
    additive      v . tanh(W s + U h)          Bahdanau et al. 2015, who write v . tanh(W [s; h]) as one matrix
    location      (W s)_j for the j-th key     Luong et al. 2015

Each is in two parts, so that what concerns the keys alone is computed once: the score of `query(s)` and `key(h)`. The
first four are dot products of these, which the fused kernel computes.

Legend: B rows, H heads, T queries, S keys, d numbers in a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.attention import attend_fused
from chainrule.neural.dropout import dropped

if TYPE_CHECKING:
    from chainrule.neural.config.conditional import ScoreName


class Score(Protocol):
    """An nn.Module. is_product: whether the score is the dot product of `query` and `key`."""

    is_product: bool

    def query(self, query: Tensor) -> Tensor:
        """(B, H, T, d) -> (B, H, T, e)."""

    def key(self, key: Tensor) -> Tensor:
        """(B, H, S, d) -> (B, H, S, e)."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Of what these two gave: (B, H, T, S)."""


class Product(nn.Module):
    """dot, scaled_dot, general and content."""

    is_product = True

    def __init__(self, name: ScoreName, heads: int, width: int) -> None:
        """width: of a head."""
        super().__init__()
        self.scale = width**-0.5 if name == "scaled_dot" else 1.0
        self.matrix = nn.Parameter(torch.empty(heads, width, width)) if name == "general" else None
        self.sharpness = nn.Parameter(torch.zeros(heads, 1, 1)) if name == "content" else None  # log b
        if self.matrix is not None:
            nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)
        if self.sharpness is not None:
            nn.init.constant_(self.sharpness, math.log(math.sqrt(width)))

    def query(self, query: Tensor) -> Tensor:
        """As `Score.query`."""
        if self.sharpness is not None:
            return F.normalize(query, dim=-1) * self.sharpness.exp()
        return query * self.scale

    def key(self, key: Tensor) -> Tensor:
        """As `Score.key`."""
        if self.sharpness is not None:
            return F.normalize(key, dim=-1)
        return key if self.matrix is None else _by_head(key, self.matrix)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT


class Additive(nn.Module):
    """v . tanh(W s + U h)."""

    is_product = False

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.of_query, self.of_key = (nn.Parameter(torch.empty(heads, width, width)) for _ in range(2))
        self.weights = nn.Parameter(torch.empty(heads, 1, 1, width))
        for weight in (self.of_query, self.of_key, self.weights):
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def query(self, query: Tensor) -> Tensor:
        """As `Score.query`."""
        return _by_head(query, self.of_query)

    def key(self, key: Tensor) -> Tensor:
        """As `Score.key`."""
        return _by_head(key, self.of_key)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return (torch.tanh(query.unsqueeze(3) + key.unsqueeze(2)) * self.weights).sum(-1)


class Location(nn.Module):
    """(W s)_j: the j-th key is scored by the query alone."""

    is_product = False

    def __init__(self, heads: int, width: int, longest: int) -> None:
        """longest: the most keys."""
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(heads, longest, width))
        nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)

    def query(self, query: Tensor) -> Tensor:
        """As `Score.query`: the scores of all positions that there can be."""
        return _by_head(query, self.matrix)

    def key(self, key: Tensor) -> Tensor:
        """As `Score.key`: only their number matters."""
        return key

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query[..., : key.shape[2]]


def _by_head(x: Tensor, matrix: Tensor) -> Tensor:
    """(B, H, T, d) by (H, e, d) -> (B, H, T, e); `@` would copy the matrix for each row."""
    return torch.einsum("bhtd,hed->bhte", x, matrix)


def score_named(name: ScoreName, heads: int, width: int, longest: int) -> Product | Additive | Location:
    """width: of queries and keys in a head. longest: the most keys, which a score by location must know."""
    if name == "additive":
        return Additive(heads, width)
    if name == "location":
        return Location(heads, width, longest)
    return Product(name, heads, width)


def weights_of(score: Score, query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(score): (B, H, T, S); where the mask is False, exactly 0. query, key: as `score` made them."""
    scores = score(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


def attend_by_score(
    score: Score, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float = 0.0
) -> Tensor:
    """softmax(score) V, by the fused kernel where the score is a product. value: (B, H, S, v) -> (B, H, T, v)."""
    if score.is_product:
        return attend_fused(query, key, value, mask, dropout, scale=1.0)
    return dropped(weights_of(score, query, key, mask), dropout) @ value
