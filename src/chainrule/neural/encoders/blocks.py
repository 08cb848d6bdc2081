"""The blocks of Transformers: attention, or a recurrence in its place, and a feed-forward layer.

Legend: B batch, T time, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.neural.layers.attention import attend, attend_unfused, build_score, capped, disentangled, scaled_dot
from chainrule.neural.layers.basic import FeedForward, activation_of, drop, norm
from chainrule.neural.layers.experts import Experts, ExpertsBeside
from chainrule.neural.layers.matrix_products import (
    by_position,
    divides_evenly,
    elementwise,
    is_by_vector,
    linear,
    widens,
)
from chainrule.neural.layers.positions import Rotation, rotate
from chainrule.neural.layers.recurrences import recurrence
from chainrule.neural.layers.state import in_eight_bits, widened

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.state import Cache


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2.2): softmax(Q_h K_h^T / sqrt(d)) V_h in each head h.

    With fewer heads of keys and values, it is grouped (Ainslie et al. 2023); with one, multi-query (Shazeer 2019).
    """

    def __init__(self, config: TransformerConfig, layer: int = 0) -> None:
        """layer: the number of its block, from 0."""
        super().__init__()
        self.heads, self.head_width = config.heads, config.head_width_of(layer)
        self.taken_from = config.keys_from(layer)  # the block whose keys and values it takes
        self.key_heads = config.key_heads_of(layer) if self.taken_from is None else 0  # of its own
        self.lends = layer in {config.keys_from(other) for other in range(config.layers)}
        self.dropout = config.attention_dropout
        self.gated, self.value_norm = config.gated_attention, config.value_norm
        self.keys_as_values = config.keys_as_values and config.is_full(layer)
        of_keys = (1 if self.keys_as_values else 2) * self.key_heads
        rows = ((1 + self.gated) * self.heads + of_keys) * self.head_width
        self.query_key_value = nn.Linear(config.width, rows, bias=config.has_biases("query_key_value"))
        self.out = nn.Linear(self.heads * self.head_width, config.width, bias=config.has_biases("attention_out"))
        self.normed, self.epsilon = config.query_key_norm, config.norm_epsilon
        self.joint, self.above_one = config.joint_query_key_norm, config.gains_above_one
        gained = config.query_key_norm and config.norm_gain
        kinds = [heads for heads in (self.heads, self.key_heads) if heads]
        widths = [(heads if self.joint else 1) * self.head_width for heads in kinds]
        start = torch.zeros if self.above_one else torch.ones
        self.gains = nn.ParameterList(start(width) for width in widths if gained)  # of queries, of keys
        scale, self.cap = config.attention_scale, config.score_cap
        self.factor = None if scale is None else scale * math.sqrt(self.head_width)  # attention divides by the root
        self.sinks = nn.Parameter(torch.zeros(self.heads)) if config.attention_sinks else None
        is_usual = config.score == "scaled_dot"
        self.score = None if is_usual else build_score(config.score, self.heads, self.head_width, 0)
        self.cache_bits: int | None = None  # of keys and values

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """cache: stores the keys and values of this layer, and returns them with those of earlier calls."""
        both = self.heads + self.key_heads
        heads = linear(x, self.query_key_value).view(*x.shape[:2], -1, self.head_width)
        query_key, value = heads[:, :, :both], heads[:, :, both:]
        gate: Tensor | None = None
        if self.gated:
            value, gate = value[:, :, : self.key_heads], value[:, :, self.key_heads :].flatten(2)
        if self.keys_as_values:
            value = query_key[:, :, self.heads :]
        if self.value_norm:
            value = F.rms_norm(value, (self.head_width,), eps=self.epsilon)
        if self.normed:
            query_key = self._normed(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key = query_key[:, :, : self.heads], query_key[:, :, self.heads :]
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        if self.score is not None:
            query, key = by_position(self.score.query, query), by_position(self.score.key, key)
            if self.score.is_product:
                query = query * math.sqrt(self.head_width)  # to cancel the kernel's division
        if self.factor is not None:
            query = query * self.factor
        if self.taken_from is not None:
            assert mask.lent is not None
            key, value = mask.lent[self.taken_from]
        elif cache is not None:
            key, value = cache.append(layer, key, value)
        elif self.cache_bits is not None and not torch.is_grad_enabled():
            packed = in_eight_bits(key, value)
            key, value = widened(packed, packed, key.dtype)
        if self.lends and mask.lent is not None:
            mask.lent[layer] = key, value
        if mask.texts is not None:
            cuts = [length for length, _ in mask.texts]
            queries, keys, values = (torch.split_with_sizes(part, cuts, 2) for part in (query, key, value))
            texts = zip(queries, keys, values, mask.texts, strict=True)
            heads = torch.cat([self._attend(q, k, v, own) for q, k, v, (_, own) in texts], 2)
        elif mask.steps is None:
            heads = self._attend(query, key, value, mask)
        else:
            parts = []
            for i, (begin, end, own) in enumerate(mask.steps):
                columns = slice(begin, end)
                parts.append(
                    self._attend(query[:, :, i : i + 1].clone(), key[:, :, columns], value[:, :, columns], own)
                )
            heads = torch.cat(parts, 2)
        heads = mask.edited("heads", layer, heads.transpose(1, 2)).flatten(2)  # (B, T, H d)
        if gate is not None:
            heads = heads * elementwise(torch.sigmoid, gate)
        return linear(heads, self.out)  # (B, T, H d) -> (B, T, D)

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
        """What scores queries by keys; None for their scaled products, which kernels know."""
        if self.score is not None and not self.score.is_product:
            return self.score
        if mask.distances is not None:
            of_distances = linear(mask.distances.vectors, self.query_key_value)
            of_distances = of_distances.view(len(of_distances), -1, self.head_width)
            return partial(disentangled, mask.distances.places, of_distances)
        if self.cap is not None:
            return partial(capped, self.cap)
        return None if self.sinks is None else scaled_dot

    def _normed(self, query_key: Float[Tensor, "B T H+K d"]) -> Float[Tensor, "B T H+K d"]:
        """Queries and keys, normalised in each head, or all of either together."""
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


class Block(nn.Module):
    """Attention and a feed-forward layer with residual connections, one after the other or in parallel.

    pre-norm    x = x + attention(norm(x));  x = x + feed_forward(norm(x))
    post-norm   x = norm(x + attention(x));  x = norm(x + feed_forward(x))      Vaswani et al. 2017
    parallel    x = x + attention(norm(x)) + feed_forward(norm(x))              Wang and Komatsuzaki 2021
    after       x = x + norm(attention(x));  x = x + norm(feed_forward(x))      OLMo 2, 2025
    both        x = x + norm(attention(norm(x)));  ...                          Gemma 2, 2024
    """

    def __init__(self, config: TransformerConfig, layer: int = 0) -> None:
        """layer: its number, from 0."""
        super().__init__()
        self.recurrent = config.mixer(layer) != "attention"
        if self.recurrent:
            self.recurrence = recurrence(config, config.mixer(layer))
        else:
            self.attention = Attention(config, layer)
        parts = config.feed_forward, config.width, config.hidden_width_of(layer)
        bias = config.has_biases("feed_forward")
        self.feed_forward: FeedForward | Experts | None = None
        self.experts_beside: ExpertsBeside | None = None
        if config.has_feed_forward and (not config.experts or config.expert_width):
            self.feed_forward = FeedForward(*parts, bias=bias)
        if config.has_feed_forward and config.experts:
            experts = Experts(
                config.feed_forward,
                (config.width, config.expert_width or parts[2]),
                config.experts,
                config.chosen_experts,
                normalised=config.normalised_experts,
                bias=bias,
                router_bias=config.router_bias,
            )
            if self.feed_forward is None:
                self.feed_forward = experts
            else:
                norms = [norm_of(config) for _ in range(3)]
                self.experts_beside = ExpertsBeside(experts, norms, config.norm_epsilon)
        self.post, self.parallel = config.norm_place == "post", config.parallel
        before = 0 if config.sublayer_norms == "after" else 2
        if (config.parallel and config.shared_norm) or not config.has_feed_forward:
            before = 1
        after = 0 if config.sublayer_norms == "before" else 2
        self.norms = nn.ModuleList(norm_of(config) for _ in range(before))
        if layer == 0 and before and not config.first_norm:
            self.norms[0] = nn.Identity()
        self.norms_after = nn.ModuleList(norm_of(config) for _ in range(after))
        self.dropout, self.scale = config.dropout, config.residual_scale
        self.dtype: torch.dtype | None = None  # that it computes in, without a cache; None for that of what comes in
        self.layer_input = LayerInput(config) if config.layer_input_width else None
        self.block_scale = nn.Parameter(torch.ones(1)) if config.block_scales else None

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """mask, rotation, cache, layer: as for `Attention`."""
        if self.dtype is not None and chooses_type(x):
            dtype = self.dtype if cache is None else torch.float32
            x, mask, rotation = x.to(dtype), mask.in_type(dtype), rotation and rotation.in_type(dtype)
        x = self._read(x, mask, rotation, cache, layer)
        if self.layer_input is not None:
            assert mask.layer_inputs is not None
            x = x + self.layer_input(x, mask.layer_inputs[:, :, layer])
        return x if self.block_scale is None else x * self.block_scale

    def is_by_token(self) -> bool:
        """Whether all but attention gives a token the same bits whatever other tokens are read with it."""
        if self.recurrent or self.experts_beside is not None or not isinstance(self.feed_forward, FeedForward):
            return False
        return all(
            is_by_vector(module.weight) and "adapter" not in module._modules and divides_evenly(module.out_features)
            for module in self.modules()
            if isinstance(module, nn.Linear)
        )

    def takes_float64(self) -> bool:
        """Whether it also reads vectors in float64, its weights as they are."""
        if self.recurrent or self.experts_beside is not None or self.layer_input is not None:
            return False
        if not isinstance(self.feed_forward, FeedForward) or self.attention.score is not None:
            return False
        return all(widens(module.weight) for module in self.modules() if isinstance(module, nn.Linear))

    def _read(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """The sums after both sub-layers."""
        if self.norms_after:
            attended = self._mixed(self.norms[0](x) if self.norms else x, mask, rotation, cache, layer)
            attended = mask.edited("attention", layer, self.norms_after[0](attended.to(x.dtype)))
            x = x + self._dropped(attended)
            assert self.feed_forward is not None
            added = self.feed_forward(self.norms[1](x) if self.norms else x)
            if self.experts_beside is not None:
                added = self.experts_beside(x, added)
            added = mask.edited("feed-forward", layer, self.norms_after[1](added.to(x.dtype)))
            return x + self._dropped(added)
        normed = x if self.post else self.norms[0](x)
        attended = mask.edited("attention", layer, self._mixed(normed, mask, rotation, cache, layer))
        if self.feed_forward is None:
            return x + self._dropped(attended)
        if self.parallel:
            beside = normed if self.post or len(self.norms) == 1 else self.norms[1](x)
            x = x + self._dropped(attended + self._fed(beside, mask, layer))
            return self.norms[0](x) if self.post else x
        x = x + self._dropped(attended)
        if self.post:
            x = self.norms[0](x)
            return cast("Tensor", self.norms[1](x + self._dropped(self._fed(x, mask, layer))))
        return x + self._dropped(self._fed(self.norms[1](x), mask, layer))

    def _fed(self, x: Tensor, mask: AttentionMask, layer: int) -> Tensor:
        assert self.feed_forward is not None
        return mask.edited("feed-forward", layer, self.feed_forward(x))

    def _mixed(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """What attention, or a recurrence, gives."""
        if not self.recurrent:
            return cast("Tensor", self.attention(x, mask, rotation, cache, layer))
        out, memory = self.recurrence(x, mask.starts, None if cache is None else cache.memories[layer])
        if cache is not None:
            cache.memories[layer] = memory
        return cast("Tensor", out)

    def _dropped(self, x: Tensor) -> Tensor:
        """What a sub-layer adds."""
        x = x if self.scale == 1 else x * self.scale
        return drop(x, self.dropout, self.training) if self.dropout else x


class LayerInput(nn.Module):
    """norm(U (a(W x) * e)), e being the vector that a token has for this block (Gemma 4, Google 2026)."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        width = config.layer_input_width
        self.gate = nn.Linear(config.width, width, bias=False)
        self.out, self.norm = nn.Linear(width, config.width, bias=False), norm_of(config)
        self.activation = activation_of(config.feed_forward)

    def forward(self, x: Float[Tensor, "B T D"], own: Float[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        """What is added."""
        added = linear(self.activation(linear(x, self.gate)) * own, self.out)
        return cast("Tensor", self.norm(added.to(x.dtype)))


def chooses_type(x: Tensor) -> bool:
    """Whether blocks may compute in a type of their own."""
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type) or x.device.type == "mps")


def check_float64_layers(count: int, blocks: Sequence[Block], *, is_usual: bool) -> None:
    """Raises SettingError where the first blocks cannot compute in float64. blocks: of each layer. is_usual: whether
    attention knows nothing but its own queries, keys and values.
    """
    if not 0 <= count <= len(blocks):
        raise SettingError(f"float64_layers is {count}; expected 1 to {len(blocks)}, the layers of the network")
    if count and not (is_usual and all(block.takes_float64() for block in blocks[:count])):
        raise SettingError(
            "float64_layers is for blocks of the usual attention and feed-forward layer, with weights in float32 or "
            "bfloat16; where a file has them in eight bits or fewer, set exact, too, which widens them; else leave it "
            "out for this network"
        )


def norm_of(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """A norm with the settings that all norms of a Transformer have. width: None for that of hidden states."""
    return norm(
        config.norm,
        config.width if width is None else width,
        gain=config.norm_gain,
        bias=config.biases,
        epsilon=config.norm_epsilon,
        gains_above_one=config.gains_above_one,
    )
