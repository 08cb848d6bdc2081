"""The blocks of a Transformer: attention and a feed-forward layer.

Legend: B batch, T time, S keys, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.encoders.reading import AttentionReadings, BlockReadings, attend_apart, in_bits
from chainrule.neural.layers.attention import attend, attend_unfused, build_score
from chainrule.neural.layers.basic import FeedForward, drop, norm
from chainrule.neural.layers.matrix_products import by_position, linear
from chainrule.neural.layers.positions import Rotation, rotate
from chainrule.neural.layers.state import widened

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.state import Cache


class Attention(AttentionReadings):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2.2): softmax(Q_h K_h^T / sqrt(d)) V_h in each head h.

    With fewer heads of keys and values, it is grouped (Ainslie et al. 2023); with one, multi-query (Shazeer 2019).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = config.heads, config.key_heads, config.width_of_heads
        rows = (self.heads + 2 * self.key_heads) * self.head_width
        self.query_key_value = nn.Linear(config.width, rows, bias=config.has_biases("query_key_value"))
        self.out = nn.Linear(self.heads * self.head_width, config.width, bias=config.has_biases("attention_out"))
        self.normed, self.epsilon = config.query_key_norm, config.norm_epsilon
        gained = self.normed and config.norm_gain
        self.gains = nn.ParameterList(torch.ones(self.head_width) for _ in range(2 * gained))  # of queries, of keys
        is_usual = config.score == "scaled_dot"
        self.score = None if is_usual else build_score(config.score, self.heads, self.head_width, 0)
        self.dropout = config.attention_dropout

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """Return the output of the layer.

        cache: stores the keys and values of this layer, and returns them with those of earlier calls.
        """
        heads = linear(x, self.query_key_value).view(*x.shape[:2], -1, self.head_width)  # (B, T, H + 2 K, d)
        query_key, value = heads[:, :, : self.heads + self.key_heads], heads[:, :, self.heads + self.key_heads :]
        if self.normed:
            query_key = self._normed(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key, value = self._by_head(query_key, value)
        key, value = self._remembered(key, value, cache, layer)
        return linear(self._attended(query, key, value, mask, layer), self.out)  # (B, T, H d) -> (B, T, D)

    def parts(self) -> list[int]:
        """Return the rows of `query_key_value` that others hold as separate matrices."""
        return [heads * self.head_width for heads in (self.heads, self.key_heads, self.key_heads)]

    def _normed(self, query_key: Float[Tensor, "B T H+K d"]) -> Float[Tensor, "B T H+K d"]:
        """Return queries and keys, normalised in each head (Henry et al. 2020)."""
        query_key = F.rms_norm(query_key, (self.head_width,), eps=self.epsilon)
        if self.gains:
            counts = (self.heads, self.key_heads)
            rows = [gain.expand(count, -1) for gain, count in zip(self.gains, counts, strict=False)]
            query_key = query_key * torch.cat(rows)
        return query_key

    def _by_head(
        self, query_key: Float[Tensor, "B T H+K d"], value: Float[Tensor, "B T K d"]
    ) -> tuple[Float[Tensor, "B H T d"], Float[Tensor, "B K T d"], Float[Tensor, "B K T d"]]:
        """Return queries and keys, prepared for their score, and values."""
        query, key = query_key[:, :, : self.heads], query_key[:, :, self.heads :]
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        if self.score is not None:
            query, key = by_position(self.score.query, query), by_position(self.score.key, key)
            if self.score.is_product:
                query = query * math.sqrt(self.head_width)  # to cancel the kernel's division
        return query, key, value

    def _remembered(
        self, key: Float[Tensor, "B K T d"], value: Float[Tensor, "B K T d"], cache: Cache | None, layer: int
    ) -> tuple[Float[Tensor, "B K S d"], Float[Tensor, "B K S d"]]:
        """Return keys and values with those of earlier calls."""
        if cache is not None:
            return cache.append(layer, key, value)
        return in_bits(self.cache_bits, key, value)

    def _attended(
        self,
        query: Float[Tensor, "B H T d"],
        key: Float[Tensor, "B K S d"],
        value: Float[Tensor, "B K S d"],
        mask: AttentionMask,
        layer: int,
    ) -> Float[Tensor, "B T H*d"]:
        """Return what all heads give, side by side."""
        heads = attend_apart(self._attend, query, key, value, mask)
        return mask.edited("heads", layer, heads.transpose(1, 2)).flatten(2)

    def _attend(
        self,
        query: Float[Tensor, "B H T d"],
        key: Float[Tensor, "B K S d"],
        value: Float[Tensor, "B K S d"],
        mask: AttentionMask,
    ) -> Float[Tensor, "B H T d"]:
        dropout = self.dropout if self.training else 0.0
        if self.score is None or self.score.is_product:
            return attend(query, key, value, mask, dropout)
        key, value = widened(key, value, query.dtype)
        return attend_unfused(self.score, query, key, value, mask, dropout)


class Block(BlockReadings):
    """Attention and a feed-forward layer with residual connections, one after the other or in parallel.

    pre-norm    x = x + attention(norm(x));  x = x + feed_forward(norm(x))
    post-norm   x = norm(x + attention(x));  x = norm(x + feed_forward(x))      Vaswani et al. 2017
    parallel    x = x + attention(norm(x)) + feed_forward(norm(x))              Wang and Komatsuzaki 2021
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        bias = config.has_biases("feed_forward")
        self.feed_forward = FeedForward(config.feed_forward, config.width, config.hidden_width, bias=bias)
        self.post, self.parallel = config.norm_place == "post", config.parallel
        self.norms = nn.ModuleList(norm_of(config) for _ in range(1 if self.parallel else 2))
        self.dropout = config.dropout

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors after the block. mask, rotation, cache, layer: as for `Attention`."""
        normed = x if self.post else self.norms[0](x)
        attended = mask.edited("attention", layer, self.attention(normed, mask, rotation, cache, layer))
        if self.parallel:
            x = x + self._dropped(attended + self._fed(normed, mask, layer))
            return self.norms[0](x) if self.post else x
        x = x + self._dropped(attended)
        if self.post:
            x = self.norms[0](x)
            return cast("Tensor", self.norms[1](x + self._dropped(self._fed(x, mask, layer))))
        return x + self._dropped(self._fed(self.norms[1](x), mask, layer))

    def _fed(self, x: Tensor, mask: AttentionMask, layer: int) -> Tensor:
        assert self.feed_forward is not None
        return mask.edited("feed-forward", layer, self.feed_forward(x))

    def _dropped(self, x: Tensor) -> Tensor:
        """Return what a sub-layer adds, after dropout."""
        return drop(x, self.dropout, self.training) if self.dropout else x


def norm_of(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """Return a norm with the settings that all norms of a Transformer have. width: None for that of hidden states."""
    width = config.width if width is None else width
    return norm(config.norm, width, gain=config.norm_gain, bias=config.biases, epsilon=config.norm_epsilon)
