"""The Transformer as a context encoder: causal with a cache of keys and values as its state, or bidirectional.

Legend: B batch, T time, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.neural.layers.attention import (
    AttentionMask,
    attend,
    attend_unfused,
    bidirectional_mask,
    build_score,
    cached_mask,
    causal_mask,
)
from chainrule.neural.layers.basic import FeedForward, drop, initialise, norm, pause
from chainrule.neural.layers.matrix_products import linear
from chainrule.neural.layers.positions import ALiBi, Learned, Relative, Rotary, Rotation, Scaling, Sinusoidal, rotate
from chainrule.neural.layers.state import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.layers.attention import Edit, Part
    from chainrule.neural.layers.state import State


class Attention(nn.Module):
    """Multi-head self-attention (Vaswani et al. 2017, section 3.2.2): softmax(Q_h K_h^T / sqrt(d)) V_h in each head h.

    With fewer heads of keys and values, it is grouped (Ainslie et al. 2023); with one, multi-query (Shazeer 2019).
    """

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
        self.score = None if is_usual else build_score(config.score, self.heads, self.head_width, 0)

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
                query = query * math.sqrt(self.head_width)  # to cancel the kernel's division
        dropout = self.dropout if self.training else 0.0
        if cache is not None:
            key, value = cache.append(layer, key, value)
        if self.score is not None and not self.score.is_product:
            heads = attend_unfused(self.score, query, key, value, mask, dropout)
        else:
            heads = attend(query, key, value, mask, dropout)
        heads = heads.transpose(1, 2)  # (B, T, H, d)
        if mask.edit is not None:
            heads = mask.edit("heads", layer, heads)
        return linear(heads.flatten(2), self.out)  # (B, T, H, d) -> (B, T, D)


class Block(nn.Module):
    """Attention and a feed-forward layer with residual connections, one after the other or in parallel.

    pre-norm    x = x + attention(norm(x));  x = x + feed_forward(norm(x))
    post-norm   x = norm(x + attention(x));  x = norm(x + feed_forward(x))      Vaswani et al. 2017
    parallel    x = x + attention(norm(x)) + feed_forward(norm(x))              Wang and Komatsuzaki 2021
    """

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
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """mask, rotation, cache, layer: as for `Attention`."""
        normed = x if self.post else self.norms[0](x)
        attended = _edited("attention", layer, self.attention(normed, mask, rotation, cache, layer), mask)
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
        return _edited("feed-forward", layer, self.feed_forward(x), mask)

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training) if self.dropout else x


def _edited(part: Part, layer: int, x: Tensor, mask: AttentionMask) -> Tensor:
    return x if mask.edit is None else mask.edit(part, layer, x)


class Transformer(nn.Module):
    """Blocks in which each token attends to itself and to the tokens before it in its row.

    A state holds at most `context` tokens: before it reads one more, it drops the older half and reads the newer half
    (rounded down) again by itself. So the n-th token is read in the window that begins at `scoring.window_start`,
    however the text was cut into calls. If a window restricts each layer and the network is translation-invariant, a
    state never fills.
    """

    def __init__(self, config: TransformerConfig, *, is_bidirectional: bool = False) -> None:
        """is_bidirectional: tokens also attend to later ones; no incremental state exists."""
        super().__init__()
        self.is_bidirectional = is_bidirectional
        self.width, self.window, self.layers = config.width, config.window, config.layers
        others = config.window_every - 1 if config.window is not None else 0
        self.windows = [*[None] * others, config.window]  # of the first blocks, and then of the next as many
        forgets = config.window is not None and not others
        self.context = None if forgets and config.is_translation_invariant else config.context
        self.dropout = config.dropout
        self.places: Learned | Sinusoidal | None = None  # added to the vectors of tokens; saved under this name
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
        self.segments = nn.Parameter(torch.zeros(config.segments, config.width)) if config.segments else None
        self.input_norm = norm_of(config) if config.input_norm else None
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = norm_of(config) if config.norm_place == "pre" else None
        self._initialise(config)

    @property
    def reach(self) -> int | None:
        """As `Encoder.reach`."""
        return None if self.window is None or len(self.windows) > 1 else self.layers * (self.window - 1) + 1

    @property
    def kept(self) -> int:
        """How many tokens a full state keeps and reads again."""
        assert self.context is not None
        return self.context // 2

    def start(self, rows: int) -> Cache:
        """The state of rows that have read nothing."""
        return Cache.empty(rows, self.layers, next(self.parameters()).device)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """As `Encoder`; without a state, rows are read from their beginning, and the new state is None."""
        if state is None:
            return self._read(x, starts), None
        assert isinstance(state, Cache)
        return self._read_on(x, state, starts)

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T D"]]:
        """As `Encoder.hidden_layers`; the last layer is normalised, as in `forward`."""
        x, masks, rotation = self._prepared(x, *self._positions_and_masks(x, starts))
        for layer, block in enumerate(self.blocks):
            x = block(x, masks[layer % len(masks)], rotation, None, layer)
            pause()
            yield x if self.norm is None or layer + 1 < self.layers else self.norm(x)

    def attention_maps(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of each layer, for rows that are read from their beginning."""
        maps: list[Tensor] = []
        positions, masks = self._positions_and_masks(x, None, in_blocks=False)
        self._through(x, positions, [mask._replace(weights_out=maps) for mask in masks], None)
        return maps

    def read_edited(self, x: Float[Tensor, "B T D"], edit: Edit) -> Float[Tensor, "B T D"]:
        """As a call for rows that are read from their beginning; the outputs of heads and layers go through `edit`."""
        positions, masks = self._positions_and_masks(x, None)
        return self._through(x, positions, [mask._replace(edit=edit) for mask in masks], None)

    def _read(self, x: Tensor, starts: Tensor | None) -> Tensor:
        return self._through(x, *self._positions_and_masks(x, starts), None)

    def _positions_and_masks(
        self, x: Tensor, starts: Tensor | None, *, in_blocks: bool = True
    ) -> tuple[Tensor, list[AttentionMask]]:
        """Positions, and masks by `windows`, for rows that are read from their beginning.

        in_blocks: as for `causal_mask`.
        """
        length, device = x.shape[1], x.device
        columns = torch.arange(length, device=device)
        positions, documents = columns[None], None
        if starts is not None:
            documents = starts.cumsum(1)
            positions = columns - torch.where(starts, columns, 0).cummax(1).values
        make = bidirectional_mask if self.is_bidirectional else partial(causal_mask, in_blocks=in_blocks)
        return positions, [
            make(length, device, window=window, bias=self.bias, documents=documents) for window in self.windows
        ]

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
        shortest = self.window if len(self.windows) == 1 else None
        cache, columns, first = cache.grown(x, starts, shortest, keep_inputs=self.context is not None)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        masks = [self._mask_read_on(cache, columns, first, window) for window in self.windows]
        return self._through(x, positions, masks, cache), cache

    def _mask_read_on(self, cache: Cache, columns: Tensor, first: Tensor | None, window: int | None) -> AttentionMask:
        """The mask of queries in the last columns, which were just added to the cache. first: as for `cached_mask`."""
        length, even = len(columns), first is None and self.bias is None
        if even and cache.begin == cache.columns - length and window is None:
            return AttentionMask(causal=length > 1)  # the cache was empty
        if even and length == 1 and (window is None or cache.columns - cache.begin <= window):
            return AttentionMask()  # the cache gives only keys that the query attends to
        keys = torch.arange(cache.begin, cache.columns, device=columns.device)
        return cached_mask(columns, keys, first, window, self.bias)

    def _through(self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None) -> Tensor:
        x, masks, rotation = self._prepared(x, positions, masks)
        for layer, block in enumerate(self.blocks):
            x = block(x, masks[layer % len(masks)], rotation, cache, layer)
            pause()
        return x if self.norm is None else self.norm(x)

    def _prepared(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask]
    ) -> tuple[Tensor, list[AttentionMask], Rotation | None]:
        """The inputs of the first block; masks: by `windows`."""
        if self.places is not None:
            x = x + self.places(positions).to(x.dtype)
        if self.segments is not None:
            x = x + self.segments[0].to(x.dtype)
        if self.input_norm is not None:
            x = self.input_norm(x)
        if self.dropout:
            x = drop(x, self.dropout, self.training)
        masks = [
            mask._replace(tensor=mask.tensor.to(x.dtype))
            if mask.tensor is not None and mask.tensor.is_floating_point()
            else mask
            for mask in masks
        ]
        return x, masks, None if self.rotary is None else self.rotary(positions, x)

    def _halved(self, cache: Cache) -> Cache:
        """The state in which full rows keep only the newer half of their tokens, read again by itself."""
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
            elif config.initialisation == "gpt2":  # the sum over all blocks keeps its variance
                initialise(weight, "gpt2", scale=1 / math.sqrt(2 * config.layers))


def norm_of(config: TransformerConfig) -> nn.Module:
    """A norm with the settings that all norms of a Transformer have."""
    return norm(config.norm, config.width, gain=config.norm_gain, bias=config.biases, epsilon=config.norm_epsilon)


def scaling_of(config: TransformerConfig) -> Scaling | None:
    """How the angles of rotary positions are scaled; None if they are not."""
    if config.rotary_scaling == "none":
        return None
    if config.rotary_scaling == "linear":
        return Scaling(config.rotary_factor)
    context = config.rotary_trained_context
    return Scaling(config.rotary_factor, context / config.rotary_low_factor, context / config.rotary_high_factor)
