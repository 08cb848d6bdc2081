"""Score functions of attention, each by its name: how well a query s matches a key h.

    dot           s . h                        Luong et al. 2015, section 3.1
    scaled_dot    s . h / sqrt(d)              Vaswani et al. 2017, equation 1
    general       s . W h                      Luong et al. 2015, section 3.1
    content       b cos(s, h), b learned       Graves et al. 2014, equations 5 and 6
    cosine        cos(s, h)                    the same with b = 1, so that weights stay soft
    additive      v . tanh(W s + U h)          Bahdanau et al. 2015, appendix A.1.2
    location      (W s)_j for the j-th key     Luong et al. 2015, equation 8

Each score is a function of `query(s)` and `key(h)`, so that what depends on the keys alone is computed once. The first
five are dot products of the two, which the fused kernel computes.

Legend: B rows, H heads, T queries, S keys, d width of a head, e width of prepared queries and keys.
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
    from jaxtyping import Bool, Float

    from chainrule.neural.config.conditional import ScoreName


class Score(Protocol):
    """An nn.Module."""

    is_product: bool  # whether the score is the dot product of the prepared query and key

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """Queries, prepared."""

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """Keys, prepared."""

    def __call__(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """The scores of prepared queries and keys."""


class Product(nn.Module):
    """dot, scaled_dot, general, cosine and content."""

    is_product = True

    def __init__(self, name: ScoreName, heads: int, width: int) -> None:
        """width: of a head."""
        super().__init__()
        self.is_cosine = name in ("cosine", "content")
        self.scale = width**-0.5 if name == "scaled_dot" else 1.0
        self.matrix = nn.Parameter(torch.empty(heads, width, width)) if name == "general" else None
        self.sharpness = nn.Parameter(torch.zeros(heads, 1, 1)) if name == "content" else None  # log b
        if self.matrix is not None:
            nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)
        if self.sharpness is not None:
            nn.init.constant_(self.sharpness, math.log(math.sqrt(width)))

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """As `Score.query`."""
        if self.is_cosine:
            directions = F.normalize(query, dim=-1)
            return directions if self.sharpness is None else directions * self.sharpness.exp()
        return query * self.scale

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """As `Score.key`."""
        if self.is_cosine:
            return F.normalize(key, dim=-1)
        return key if self.matrix is None else _by_head(key, self.matrix)

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """As `Score`."""
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

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """As `Score.query`."""
        return _by_head(query, self.of_query)

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """As `Score.key`."""
        return _by_head(key, self.of_key)

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """As `Score`."""
        return (torch.tanh(query.unsqueeze(3) + key.unsqueeze(2)) * self.weights).sum(-1)


class Location(nn.Module):
    """(W s)_j: the score of the j-th key depends on the query and j alone."""

    is_product = False

    def __init__(self, heads: int, width: int, longest: int) -> None:
        """longest: the most keys."""
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(heads, longest, width))
        nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """As `Score.query`: the scores of all positions that a key may have."""
        return _by_head(query, self.matrix)

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """As `Score.key`; only the number of keys matters."""
        return key

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """As `Score`."""
        return query[..., : key.shape[2]]


def _by_head(x: Float[Tensor, "B H T d"], matrix: Float[Tensor, "H e d"]) -> Float[Tensor, "B H T e"]:
    """A product with each head's own matrix; `@` would copy the matrix for each row."""
    return torch.einsum("bhtd,hed->bhte", x, matrix)


def build_score(name: ScoreName, heads: int, width: int, longest: int) -> Product | Additive | Location:
    """The score of that name. width: of a head. longest: the most keys, which the location score must know."""
    if name == "additive":
        return Additive(heads, width)
    if name == "location":
        return Location(heads, width, longest)
    return Product(name, heads, width)


def attention_weights(
    score: Score,
    query: Float[Tensor, "B H T e"],
    key: Float[Tensor, "B H S e"],
    mask: Bool[Tensor, "#B #H #T S"] | None,
) -> Float[Tensor, "B H T S"]:
    """softmax(score) over the keys; exactly 0 where the mask is False. query, key: prepared by `score`."""
    scores = score(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


def attend_by_score(
    score: Score,
    query: Float[Tensor, "B H T e"],
    key: Float[Tensor, "B H S e"],
    value: Float[Tensor, "B H S v"],
    mask: Bool[Tensor, "#B #H #T S"] | None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T v"]:
    """softmax(score) V, by the fused kernel if the score is a dot product. query, key: prepared by `score`."""
    if score.is_product:
        return attend_fused(query, key, value, mask, dropout, scale=1.0)
    return dropped(attention_weights(score, query, key, mask), dropout) @ value
