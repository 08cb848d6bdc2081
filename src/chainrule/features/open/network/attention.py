"""Attention of opened Transformers: gates, sinks, caps, shared keys, values without a matrix, and other norms.

Legend: B batch, T time, S keys, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.encoders.blocks import Attention
from chainrule.neural.layers.attention import attend, attend_unfused, build_score, scaled_dot
from chainrule.neural.layers.matrix_products import elementwise, linear
from chainrule.neural.layers.positions import rotate
from chainrule.neural.layers.state import widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float

    from chainrule.features.open.network.config import OpenSettings
    from chainrule.features.open.network.distances import DistanceVectors
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache


class Beside(NamedTuple):
    """What blocks read beside hidden states: `AttentionMask.beside`.

    is_long: whether rows belong to texts for which angles are others, even if they end before. distances: what queries
    and keys are scored by, beside their products. lent: keys and values of blocks that share them, by layer.
    layer_inputs: what each block adds for a token, (B, T, layers, P). growth: the factors of queries,
    (B, T, 1, 1).
    """

    is_long: bool = False
    distances: DistanceVectors | None = None
    lent: dict[int, tuple[Tensor, Tensor]] | None = None
    layer_inputs: Tensor | None = None
    growth: Tensor | None = None


NOTHING = Beside()


class OpenAttention(Attention):
    """As `Attention`, with what opened checkpoints may have."""

    def __init__(self, config: OpenSettings, layer: int) -> None:
        """Build the attention of a block. layer: the number of its block, from 0."""
        nn.Module.__init__(self)
        self.heads, self.head_width = config.heads, config.head_width_of(layer)
        self.taken_from = config.keys_from(layer)  # the block whose keys and values it takes
        self.key_heads = config.key_heads_of(layer) if self.taken_from is None else 0  # of its own
        self.lends = layer in {config.keys_from(other) for other in range(config.layers)}
        self.dropout = config.attention_dropout
        self.gated, self.value_norm = config.gated_attention, config.value_norm
        self.keys_as_values = config.keys_as_values and config.is_full(layer)
        bias = config.has_biases("query_key_value")
        if config.key_rank is None:
            self.query_key_value = nn.Linear(config.width, sum(self.parts()), bias=bias)
        values = self.heads * (self.head_width if config.key_rank is None else config.width_of_values)
        self.out = nn.Linear(values, config.width, bias=config.has_biases("attention_out"))
        self.normed, self.epsilon = config.query_key_norm, config.norm_epsilon
        self.joint, self.above_one = config.joint_query_key_norm, config.gains_above_one
        self.rotates_first = config.norm_after_rotation
        gained = config.query_key_norm and config.norm_gain
        kinds = [heads for heads in (self.heads, self.key_heads) if heads]
        widths = [(heads if self.joint else 1) * self.head_width for heads in kinds]
        start = torch.zeros if self.above_one else torch.ones
        self.gains = nn.ParameterList(start(width) for width in widths if gained)  # of queries, of keys
        scale, self.cap = config.attention_scale, config.score_cap
        self.factor = None if scale is None else scale * math.sqrt(self.head_width)  # attention divides by the root
        self.grows = config.query_growth != 0
        self.out_scale = None if config.attention_out_scale == 1 else config.attention_out_scale
        self.sinks = nn.Parameter(torch.zeros(self.heads)) if config.attention_sinks else None
        is_usual = config.score == "scaled_dot"
        self.score = None if is_usual else build_score(config.score, self.heads, self.head_width, 0)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """Return the attended values, as `Attention` does."""
        both, beside = self.heads + self.key_heads, cast("Beside", mask.beside or NOTHING)
        heads = linear(x, self.query_key_value).view(*x.shape[:2], -1, self.head_width)
        query_key, value = heads[:, :, :both], heads[:, :, both:]
        gate: Tensor | None = None
        if self.gated:
            value, gate = value[:, :, : self.key_heads], value[:, :, self.key_heads :].flatten(2)
        if self.keys_as_values:
            value = query_key[:, :, self.heads :]
        if self.value_norm:
            value = F.rms_norm(value, (self.head_width,), eps=self.epsilon)
        if self.normed and not self.rotates_first:
            query_key = self._normed(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        if self.normed and self.rotates_first:
            query_key = self._normed(query_key)
        if self.grows and beside.growth is not None:
            growth = beside.growth.to(query_key.dtype)
            query_key = torch.cat((query_key[:, :, : self.heads] * growth, query_key[:, :, self.heads :]), 2)
        query, key, value = self._by_head(query_key, value)
        if self.factor is not None:
            query = query * self.factor
        if self.taken_from is not None:
            assert beside.lent is not None
            key, value = beside.lent[self.taken_from]
        else:
            key, value = self._remembered(key, value, cache, layer)
        if self.lends and beside.lent is not None:
            beside.lent[layer] = key, value
        attended = self._attended(query, key, value, mask, layer)
        if gate is not None:
            attended = attended * elementwise(torch.sigmoid, gate)
        out = linear(attended, self.out)
        return out if self.out_scale is None else out * self.out_scale

    def parts(self) -> list[int]:
        """Return the sizes of `Attention.parts`, with gates."""
        keys = [self.key_heads] * (1 if self.keys_as_values else 2) if self.key_heads else []
        gates = [self.heads] if self.gated else []
        return [heads * self.head_width for heads in (self.heads, *keys, *gates)]

    def _attend(
        self,
        query: Float[Tensor, "B H T d"],
        key: Float[Tensor, "B K S d"],
        value: Float[Tensor, "B K S d"],
        mask: AttentionMask,
    ) -> Float[Tensor, "B H T d"]:
        dropout, score = self.dropout if self.training else 0.0, self._score_function(mask)
        if score is None:
            return attend(query, key, value, mask, dropout)
        key, value = widened(key, value, query.dtype)
        return attend_unfused(score, query, key, value, mask, dropout, sinks=self.sinks)

    def _score_function(self, mask: AttentionMask) -> Callable[[Tensor, Tensor], Tensor] | None:
        """Return the function that scores queries by keys; None for their scaled products, which kernels know."""
        if self.score is not None and not self.score.is_product:
            return self.score
        if mask.beside is not None and (distances := mask.beside.distances) is not None:
            from chainrule.features.open.network.distances import disentangled

            of_distances = linear(distances.vectors, self.query_key_value)
            of_distances = of_distances.view(len(of_distances), -1, self.head_width)
            return partial(disentangled, distances.places, of_distances)
        if self.cap is not None:
            return partial(capped, self.cap)
        return None if self.sinks is None else scaled_dot

    def _normed(self, query_key: Float[Tensor, "B T H+K d"]) -> Float[Tensor, "B T H+K d"]:
        """Return queries and keys, normalised in each head, or all of either together."""
        gains = [1 + gain if self.above_one else gain for gain in self.gains]
        if self.joint:
            parts = (query_key[:, :, : self.heads].flatten(2), query_key[:, :, self.heads :].flatten(2))
            normed = [F.rms_norm(part, part.shape[2:], eps=self.epsilon) for part in parts]
            if gains:
                normed = [part * gain for part, gain in zip(normed, gains, strict=True)]
            return torch.cat(normed, 2).view_as(query_key)
        query_key = F.rms_norm(query_key, (self.head_width,), eps=self.epsilon)
        if gains:
            counts = (self.heads, self.key_heads)
            rows = [gain.expand(count, -1) for gain, count in zip(gains, counts, strict=False)]
            query_key = query_key * torch.cat(rows)
        return query_key


def capped(cap: float, query: Float[Tensor, "B H T d"], key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H T S"]:
    """Return a score function for `attend_unfused`: scaled dot products, softly kept within the cap (Gemma 2)."""
    return torch.tanh(scaled_dot(query, key) / cap) * cap
