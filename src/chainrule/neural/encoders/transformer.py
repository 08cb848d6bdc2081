"""A decoder of Transformer blocks, with a cache of keys and values to go on from.

Legend: B batch, T time, D width, H heads, K heads of keys and values, d numbers in a head.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.attention import (
    AttentionMask,
    attend,
    attend_unfused,
    bidirectional_mask,
    cached_mask,
    causal_mask,
)
from chainrule.neural.cache import Cache
from chainrule.neural.dropout import dropped
from chainrule.neural.layers import FeedForward, initialise, linear, norm
from chainrule.neural.positions import ALiBi, Learned, Relative, Rotary, Rotation, Scaling, Sinusoidal, rotate
from chainrule.neural.scores import score_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.states import State


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani 2017); with fewer heads of keys grouped (Ainslie 2023) or multi-query."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.heads, self.key_heads, self.head_width = config.heads, config.key_heads, config.width_of_heads
        self.dropout = config.attention_dropout
        rows = (self.heads + 2 * self.key_heads) * self.head_width
        self.query_key_value = nn.Linear(config.width, rows, bias=config.has_biases("query_key_value"))
        self.out = nn.Linear(self.heads * self.head_width, config.width, bias=config.has_biases("attention_out"))
        self.normed, self.epsilon = config.query_key_norm, config.norm_epsilon
        gained = config.query_key_norm and config.norm_gain
        self.gains = nn.ParameterList(torch.ones(self.head_width) for _ in range(2 * gained))  # of queries, of keys
        is_usual = config.score == "scaled_dot"
        self.score = None if is_usual else score_named(config.score, self.heads, self.head_width, 0)

    def forward(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """(B, T, D) -> (B, T, D). cache: where keys and values of this layer go, and those before them come from."""
        both = self.heads + self.key_heads
        heads = linear(x, self.query_key_value).view(*x.shape[:2], -1, self.head_width)
        query_key, value = heads[:, :, :both], heads[:, :, both:]
        if self.normed:  # (B, T, H+K, d)
            query_key = F.rms_norm(query_key, (self.head_width,), eps=self.epsilon)
            if self.gains:
                query_gain, key_gain = self.gains
                query_key = query_key * torch.cat(
                    (query_gain.expand(self.heads, -1), key_gain.expand(self.key_heads, -1))
                )
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key = query_key[:, :, : self.heads], query_key[:, :, self.heads :]
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        if self.score is not None:
            query, key = self.score.query(query), self.score.key(key)
            if self.score.is_product:
                query = query * math.sqrt(self.head_width)  # which the kernel divides by
        dropout = self.dropout if self.training else 0.0
        if cache is not None:
            key, value = cache.appended(layer, key, value)
        if self.score is not None and not self.score.is_product:
            found = attend_unfused(self.score, query, key, value, mask, dropout)
        else:
            found = attend(query, key, value, mask, dropout)
        return linear(found.transpose(1, 2).flatten(2), self.out)


class Block(nn.Module):
    """Attention and a feed-forward layer, each added to what it was given."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.feed_forward = FeedForward(
            config.feed_forward, config.width, config.hidden_width, bias=config.has_biases("feed_forward")
        )
        self.post, self.parallel = config.norm_place == "post", config.parallel
        self.norms = nn.ModuleList(norm_of(config) for _ in range(1 if config.parallel and config.shared_norm else 2))
        self.dropout = config.dropout

    def forward(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        given = x if self.post else self.norms[0](x)
        found = self.attention(given, mask, rotation, cache, layer)
        if self.parallel:
            beside = given if self.post or len(self.norms) == 1 else self.norms[1](x)
            x = x + self._dropped(found + self.feed_forward(beside))
            return self.norms[0](x) if self.post else x
        x = x + self._dropped(found)
        if self.post:
            x = self.norms[0](x)
            return cast("Tensor", self.norms[1](x + self._dropped(self.feed_forward(x))))
        return x + self._dropped(self.feed_forward(self.norms[1](x)))

    def _dropped(self, x: Tensor) -> Tensor:
        return dropped(x, self.dropout, self.training) if self.dropout else x


class Transformer(nn.Module):
    """Each token sees itself and those before it in its row.

    A state holds at most `context` tokens: before one more is read, the older half is dropped, and the younger half
    (rounded down) is read again by itself. So the n-th token is read in the window that `window_start` tells, however
    the text was cut into calls. Where `window` restricts each layer, and the network is translation-invariant,
    a state never fills.
    """

    def __init__(self, config: TransformerConfig, *, is_bidirectional: bool = False) -> None:
        """is_bidirectional: tokens also attend to later ones; no incremental state exists."""
        super().__init__()
        self.is_bidirectional = is_bidirectional
        self.width, self.window, self.layers = config.width, config.window, config.layers
        self.context = None if config.window is not None and config.is_translation_invariant else config.context
        self.dropout = config.dropout
        self.places: Learned | Sinusoidal | None = None
        self.rotary: Rotary | None = None
        self.bias: ALiBi | Relative | None = None
        if config.positions == "learned":
            self.places = Learned(config.context, config.width, config.position_offset)
        elif config.positions == "sinusoidal":
            self.places = Sinusoidal(config.width)
        elif config.positions == "rotary":
            self.rotary = Rotary(config.rotated_width, config.rotary_base, scaling_of(config))
        elif config.positions == "alibi":
            self.bias = ALiBi(config.heads)
        elif config.positions == "relative":
            self.bias = Relative(config.heads)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = norm_of(config) if config.norm_place == "pre" else None
        self._initialise(config)

    @property
    def reach(self) -> int | None:
        """How many tokens a prediction depends on where a state never fills."""
        return None if self.window is None else self.layers * (self.window - 1) + 1

    @property
    def kept(self) -> int:
        """How many tokens a full state reads again."""
        assert self.context is not None
        return self.context // 2

    def start(self, rows: int) -> Cache:
        """The state of rows that have read nothing."""
        return Cache.empty(rows, self.layers, next(self.parameters()).device)

    def forward(self, x: Tensor, state: State = None, starts: Tensor | None = None) -> tuple[Tensor, State]:
        """x: (B, T, D). state: what `start` or this gave; without one, rows are read from their beginning and nothing
        is kept to go on from. starts: (B, T), True where a row forgets what it has read and begins anew.
        """
        if state is None:
            return self._read(x, starts), None
        assert isinstance(state, Cache)
        return self._read_on(x, state, starts)

    def hidden_layers(self, x: Tensor, starts: Tensor | None = None) -> Iterator[Tensor]:
        """As `Encoder.hidden_layers`; the last one is normalised, as `forward` gives it."""
        x, mask, rotation = self._prepared(x, *self._positions_and_mask(x, starts))
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, None, layer)
            yield x if self.norm is None or layer + 1 < self.layers else self.norm(x)

    def attention_maps(self, x: Tensor) -> list[Tensor]:
        """Where each position of rows that are read from their beginning looks, in each layer: (B, H, T, T)."""
        maps: list[Tensor] = []
        positions, mask = self._positions_and_mask(x, None, in_blocks=False)
        self._through(x, positions, mask._replace(weights_out=maps), None)
        return maps

    def _read(self, x: Tensor, starts: Tensor | None) -> Tensor:
        return self._through(x, *self._positions_and_mask(x, starts), None)

    def _positions_and_mask(
        self, x: Tensor, starts: Tensor | None, *, in_blocks: bool = True
    ) -> tuple[Tensor, AttentionMask]:
        """For rows that are read from their beginning. in_blocks: as for `causal_mask`."""
        length, device = x.shape[1], x.device
        columns = torch.arange(length, device=device)
        positions, documents = columns[None], None
        if starts is not None:
            documents = starts.cumsum(1)
            positions = columns - torch.where(starts, columns, 0).cummax(1).values
        if self.is_bidirectional:
            mask = bidirectional_mask(length, device, window=self.window, bias=self.bias, documents=documents)
        else:
            mask = causal_mask(
                length, device, window=self.window, bias=self.bias, documents=documents, in_blocks=in_blocks
            )
        return positions, mask

    def _read_on(self, x: Tensor, cache: Cache, starts: Tensor | None) -> tuple[Tensor, Cache]:
        length = x.shape[1]
        if self.context is not None and length > 1 and cache.longest + length > self.context:
            parts = []
            for position in range(length):
                part, cache = self._read_on(
                    x[:, position : position + 1], cache, None if starts is None else starts[:, position : position + 1]
                )
                parts.append(part)
            return torch.cat(parts, 1), cache
        if self.context is not None and cache.longest + length > self.context:
            cache = self._halved(cache)
        cache, columns, first = cache.grown(x, starts, self.window, keep_inputs=self.context is not None)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        even = first is None
        if even and cache.begin == cache.columns - length and self.window is None and self.bias is None:
            mask = AttentionMask(causal=length > 1)  # nothing was read before
        elif even and length == 1 and self.bias is None:
            mask = AttentionMask()  # the cache shows nothing but what is seen
        else:
            keys = torch.arange(cache.begin, cache.columns, device=x.device)
            mask = cached_mask(columns, keys, first, self.window, self.bias)
        return self._through(x, positions, mask, cache), cache

    def _through(self, x: Tensor, positions: Tensor, mask: AttentionMask, cache: Cache | None) -> Tensor:
        x, mask, rotation = self._prepared(x, positions, mask)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, cache, layer)
        return x if self.norm is None else self.norm(x)

    def _prepared(
        self, x: Tensor, positions: Tensor, mask: AttentionMask
    ) -> tuple[Tensor, AttentionMask, Rotation | None]:
        """What the first block is given."""
        if self.places is not None:
            x = x + self.places(positions).to(x.dtype)
        if self.dropout:
            x = dropped(x, self.dropout, self.training)
        if mask.tensor is not None and mask.tensor.is_floating_point():
            mask = mask._replace(tensor=mask.tensor.to(x.dtype))
        return x, mask, None if self.rotary is None else self.rotary(positions, x)

    def _halved(self, cache: Cache) -> Cache:
        """Rows that are full keep the younger half of what they have read, which they read again by itself."""
        assert self.context is not None
        full = cache.rows_of(self.context)
        fresh = self.start(len(full))
        if self.kept:
            _, fresh = self._read_on(cache.last_inputs(full, self.kept), fresh, None)
        return cache.replaced(full, fresh)

    def _initialise(self, config: TransformerConfig) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear):
                initialise(module.weight, config.initialisation)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for name, weight in self.named_parameters():
            if not name.endswith(("out.weight", "down.weight")):
                continue
            if config.zero_projections:
                nn.init.zeros_(weight)
            elif config.initialisation == "gpt2":  # so that the sum over all blocks has the variance of one
                initialise(weight, "gpt2", scale=1 / math.sqrt(2 * config.layers))


def norm_of(config: TransformerConfig) -> nn.Module:
    """As all norms of a Transformer are."""
    return norm(config.norm, config.width, gain=config.norm_gain, bias=config.biases, epsilon=config.norm_epsilon)


def scaling_of(config: TransformerConfig) -> Scaling | None:
    """How the angles of rotary positions shrink, if they do."""
    if config.rotary_scaling == "none":
        return None
    if config.rotary_scaling == "linear":
        return Scaling(config.rotary_factor)
    context = config.rotary_trained_context
    return Scaling(config.rotary_factor, context / config.rotary_low_factor, context / config.rotary_high_factor)
