"""Multi-head latent attention (DeepSeek-AI 2024): keys and values of all heads come from one short vector of a token.

A cache holds keys and values, not the short vectors: these save memory, but each step would make all keys anew.
Legend: B batch, T time, D width, H heads, d width of a query or key, v of a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from chainrule.features.open.network.attention import OpenAttention
from chainrule.neural.layers.basic import RMSNorm
from chainrule.neural.layers.matrix_products import linear
from chainrule.neural.layers.positions import rotate

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.features.open.network.config import OpenSettings
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache

_EPSILON = 1e-6  # of the norms of short vectors, whatever config.json says


class LatentAttention(OpenAttention):
    """q = Q norm(Q' x), or Q x; k = [r, K norm(c)], v = V norm(c), with [c, r] = C x, and r the same for all heads.

    Only r, and the first numbers of q, rotate.
    """

    def __init__(self, config: OpenSettings, layer: int) -> None:
        """Build the attention of a block. layer: the number of its block, from 0."""
        super().__init__(config, layer)
        assert config.key_rank is not None
        self.rank, self.rotated, self.value_width = config.key_rank, config.rotated_width, config.width_of_values
        bias, width = config.has_biases("query_key_value"), config.width
        read = width
        self.query_down: nn.Linear | None = None
        if config.query_rank is not None:
            read = config.query_rank
            self.query_down, self.query_norm = nn.Linear(width, read, bias=bias), RMSNorm(read, _EPSILON)
        self.query = nn.Linear(read, self.heads * self.head_width, bias=False)
        self.down, self.key_norm = nn.Linear(width, self.rank + self.rotated, bias=bias), RMSNorm(self.rank, _EPSILON)
        numbers = self.head_width - self.rotated + self.value_width
        self.key_value = nn.Linear(self.rank, self.heads * numbers, bias=False)

    def forward(
        self,
        x: Float[torch.Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[torch.Tensor, "B T D"]:
        """Return the attended values, as `Attention` does."""
        shape = (*x.shape[:2], self.heads, -1)
        read = x if self.query_down is None else self.query_norm(linear(x, self.query_down).to(x.dtype))
        query = linear(read, self.query).view(shape)
        short, own = linear(x, self.down).split_with_sizes((self.rank, self.rotated), -1)
        both = linear(self.key_norm(short.to(x.dtype)), self.key_value).view(shape)
        rest, value = both.split_with_sizes((self.head_width - self.rotated, self.value_width), -1)
        key = torch.cat((own.unsqueeze(2).expand(-1, -1, self.heads, -1), rest), -1)  # (B, T, H, d)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        query = query if self.factor is None else query * self.factor
        value = F.pad(value, (0, self.head_width - self.value_width))  # a cache has as many numbers of both
        key, value = self._remembered(key.transpose(1, 2), value.transpose(1, 2), cache, layer)
        attended = self._attended(query.transpose(1, 2), key, value, mask, layer)
        return linear(attended.view(*shape[:3], -1)[..., : self.value_width].flatten(2), self.out)

    def parts(self) -> list[int]:
        """Return the sizes of `Attention.parts`: it has none together."""
        return []
