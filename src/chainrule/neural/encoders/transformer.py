"""The Transformer as a context encoder: causal with a cache of keys and values as its state, or bidirectional.

Legend: B batch, T time, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
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
    capped,
    causal_mask,
)
from chainrule.neural.layers.basic import FeedForward, drop, initialise, norm, pause
from chainrule.neural.layers.experts import Experts
from chainrule.neural.layers.matrix_products import linear
from chainrule.neural.layers.positions import (
    ALiBi,
    Divisors,
    Learned,
    Relative,
    Rotary,
    Rotation,
    Scaling,
    Sinusoidal,
    Yarn,
    rotate,
)
from chainrule.neural.layers.state import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        self.joint, self.above_one = config.joint_query_key_norm, config.gains_above_one
        gained = config.query_key_norm and config.norm_gain
        widths = [(heads if self.joint else 1) * self.head_width for heads in (self.heads, self.key_heads)]
        start = torch.zeros if self.above_one else torch.ones
        self.gains = nn.ParameterList(start(width) for width in widths if gained)  # of queries, of keys
        scale, self.cap = config.attention_scale, config.score_cap
        self.factor = None if scale is None else scale * math.sqrt(self.head_width)  # attention divides by the root
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
        if self.normed:
            query_key = self._normed(query_key)
        if rotation is not None:
            query_key = rotate(query_key, rotation)
        query, key = query_key[:, :, : self.heads], query_key[:, :, self.heads :]
        query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
        if self.score is not None:
            query, key = self.score.query(query), self.score.key(key)
            if self.score.is_product:
                query = query * math.sqrt(self.head_width)  # to cancel the kernel's division
        if self.factor is not None:
            query = query * self.factor
        dropout = self.dropout if self.training else 0.0
        if cache is not None:
            key, value = cache.append(layer, key, value)
        if self.score is not None and not self.score.is_product:
            heads = attend_unfused(self.score, query, key, value, mask, dropout)
        elif self.cap is not None:
            heads = attend_unfused(partial(capped, self.cap), query, key, value, mask, dropout)
        else:
            heads = attend(query, key, value, mask, dropout)
        heads = heads.transpose(1, 2)  # (B, T, H, d)
        if mask.edit is not None:
            heads = mask.edit("heads", layer, heads)
        return linear(heads.flatten(2), self.out)  # (B, T, H, d) -> (B, T, D)

    def _normed(self, query_key: Float[Tensor, "B T H+K d"]) -> Float[Tensor, "B T H+K d"]:
        """Queries and keys, normalised in each head, or all of either together."""
        gains = [1 + gain if self.above_one else gain for gain in self.gains]
        if self.joint:
            parts = query_key[:, :, : self.heads], query_key[:, :, self.heads :]
            return torch.cat(
                [
                    F.rms_norm(part.flatten(2), (part.shape[2:].numel(),), gain, self.epsilon).view_as(part)
                    for part, gain in zip(parts, gains or (None, None), strict=True)
                ],
                2,
            )
        query_key = F.rms_norm(query_key, (self.head_width,), eps=self.epsilon)
        if gains:
            query_gain, key_gain = gains
            query_key = query_key * torch.cat((query_gain.expand(self.heads, -1), key_gain.expand(self.key_heads, -1)))
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
        self.attention = Attention(config)
        parts = config.feed_forward, config.width, config.hidden_width
        bias = config.has_biases("feed_forward")
        self.feed_forward: FeedForward | Experts = FeedForward(*parts, bias=bias)
        if config.experts:
            self.feed_forward = Experts(
                *parts, config.experts, config.chosen_experts, normalised=config.normalised_experts, bias=bias
            )
        self.post, self.parallel = config.norm_place == "post", config.parallel
        before = 1 if config.parallel and config.shared_norm else 2 if config.sublayer_norms != "after" else 0
        after = 0 if config.sublayer_norms == "before" else 2
        self.norms = nn.ModuleList(norm_of(config) for _ in range(before))
        if layer == 0 and before and not config.first_norm:
            self.norms[0] = nn.Identity()
        self.norms_after = nn.ModuleList(norm_of(config) for _ in range(after))
        self.dropout, self.scale = config.dropout, config.residual_scale

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """mask, rotation, cache, layer: as for `Attention`."""
        if self.norms_after:
            attended = self.attention(self.norms[0](x) if self.norms else x, mask, rotation, cache, layer)
            x = x + self._dropped(self.norms_after[0](attended))
            added = self.feed_forward(self.norms[1](x) if self.norms else x)
            return x + self._dropped(self.norms_after[1](added))
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
        """What a sub-layer adds."""
        x = x if self.scale == 1 else x * self.scale
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
        has_window = [config.has_window(layer) for layer in range(config.layers)]
        self.windows: list[int | None] = [*[None] * (not all(has_window)), *[config.window] * any(has_window)]
        self.kinds = [len(self.windows) - 1 if own else 0 for own in has_window]  # which of them each block has
        self.in_blocks, self.turn = config.score_cap is None, None
        self.unrotated = frozenset(config.unrotated_layers)
        forgets = all(has_window)
        self.context = None if forgets and config.is_translation_invariant else config.context
        self.dropout = config.dropout
        self.places: Learned | Sinusoidal | None = None  # added to the vectors of tokens; saved under this name
        self.rotary: Rotary | None = None
        self.window_rotary: Rotary | None = None  # of blocks with a window, if theirs is another
        self.long_rotary: Rotary | None = None  # of texts longer than `turn`
        self.bias: ALiBi | Relative | None = None
        if config.positions == "learned":
            self.places = Learned(config.context, config.input_width, config.position_offset)
        elif config.positions == "sinusoidal":
            self.places = Sinusoidal(config.input_width)
        elif config.positions == "rotary":
            self.rotary = Rotary(config.rotated_width, config.rotary_base, scaling_of(config), config.rotary_amplitude)
            if config.window_rotary_base is not None:
                self.window_rotary = Rotary(config.rotated_width, config.window_rotary_base)
            if config.changes_rotation:
                self.turn = config.rotary_trained_context
                scaling = Divisors(config.rotary_long_divisors)
                self.long_rotary = Rotary(config.rotated_width, config.rotary_base, scaling, config.rotary_amplitude)
        elif config.positions == "alibi":
            self.bias = ALiBi(config.heads)
        elif config.positions == "relative":
            self.bias = Relative(config.heads)
        if config.relative_bias:
            self.bias = Relative(config.heads, two_sided=is_bidirectional)
        inputs = config.input_width
        self.segments = nn.Parameter(torch.zeros(config.segments, inputs)) if config.segments else None
        self.input_norm = norm_of(config, inputs) if config.input_norm else None
        self.projection = nn.Linear(inputs, config.width) if inputs != config.width else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.layers))
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
        positions, masks = self._positions_and_masks(x, starts)
        if not self._turns(x.shape[1]):
            yield from self._layers(x, positions, masks)
            return
        both = (self._layers(x, positions, masks, is_long=is_long) for is_long in (False, True))
        for short, long in zip(*both, strict=True):
            yield self._by_length(positions, short, long)

    def attention_maps(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "B H T T"]]:
        """The attention weights of each layer, for rows that are read from their beginning."""
        maps: list[Tensor] = []
        positions, masks = self._positions_and_masks(x, None, in_blocks=False)
        masks = [mask._replace(weights_out=maps) for mask in masks]
        self._through(x, positions, masks, None, is_long=self._turns(x.shape[1]))
        return maps

    def read_edited(self, x: Float[Tensor, "B T D"], edit: Edit) -> Float[Tensor, "B T D"]:
        """As a call for rows that are read from their beginning; the outputs of heads and layers go through `edit`."""
        positions, masks = self._positions_and_masks(x, None)
        return self._through(x, positions, [mask._replace(edit=edit) for mask in masks], None)

    def _read(self, x: Tensor, starts: Tensor | None) -> Tensor:
        positions, masks = self._positions_and_masks(x, starts)
        short = self._through(x, positions, masks, None)
        if not self._turns(x.shape[1]):
            return short
        return self._by_length(positions, short, self._through(x, positions, masks, None, is_long=True))

    def _turns(self, length: int) -> bool:
        """Whether rows of that length may have texts for which angles are others."""
        return self.turn is not None and length > self.turn

    def _by_length(self, positions: Tensor, short: Tensor, long: Tensor) -> Tensor:
        """Hidden states by how long the text is at each of its tokens, so that none depends on those after it."""
        assert self.turn is not None
        return torch.where((positions >= self.turn)[..., None], long, short)

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
        make = (
            bidirectional_mask
            if self.is_bidirectional
            else partial(causal_mask, in_blocks=in_blocks and self.in_blocks)
        )
        return positions, [
            make(length, device, window=window, bias=self.bias, documents=documents) for window in self.windows
        ]

    def _read_on(
        self, x: Tensor, cache: Cache, starts: Tensor | None, *, is_long: bool = False
    ) -> tuple[Tensor, Cache]:
        """is_long: whether the rows belong to texts longer than `turn`, even if they end before."""
        length = x.shape[1]
        if length > 1 and self.context is not None and cache.longest + length > self.context:
            return self._read_in_parts(x, cache, starts, range(length + 1))
        if self._turns(cache.longest + length) and not is_long:
            assert self.turn is not None
            if length > 1 and (starts is not None or not cache.even):
                return self._read_in_parts(x, cache, starts, range(length + 1))
            if cache.longest < self.turn:
                return self._read_in_parts(x, cache, starts, (0, self.turn - cache.longest, length))
            cache = self._turned(cache)
        if self.context is not None and cache.longest + length > self.context:
            cache = self._halved(cache)
        shortest = self.window if len(self.windows) == 1 else None
        cache, columns, first = cache.grown(x, starts, shortest, keep_inputs=self.context is not None)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        masks = [self._mask_read_on(cache, columns, first, window) for window in self.windows]
        return self._through(x, positions, masks, cache, is_long=is_long), cache

    def _read_in_parts(
        self, x: Tensor, cache: Cache, starts: Tensor | None, borders: Sequence[int]
    ) -> tuple[Tensor, Cache]:
        parts = []
        for begin, end in pairwise(borders):
            own_starts = None if starts is None else starts[:, begin:end]
            part, cache = self._read_on(x[:, begin:end], cache, own_starts)
            parts.append(part)
        return torch.cat(parts, 1), cache

    def _mask_read_on(self, cache: Cache, columns: Tensor, first: Tensor | None, window: int | None) -> AttentionMask:
        """The mask of queries in the last columns, which were just added to the cache. first: as for `cached_mask`."""
        length, even = len(columns), first is None and self.bias is None
        if even and cache.begin == cache.columns - length and window is None:
            return AttentionMask(causal=length > 1)  # the cache was empty
        if even and length == 1 and (window is None or cache.columns - cache.begin <= window):
            return AttentionMask()  # the cache gives only keys that the query attends to
        keys = torch.arange(cache.begin, cache.columns, device=columns.device)
        return cached_mask(columns, keys, first, window, self.bias)

    def _through(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None, *, is_long: bool = False
    ) -> Tensor:
        """The hidden states after the last block. masks: by `windows`. is_long: as for `_read_on`."""
        x, masks, rotations = self._prepared(x, positions, masks, is_long=is_long)
        for layer, block in enumerate(self.blocks):
            kind = self.kinds[layer]
            x = block(x, masks[kind], None if layer in self.unrotated else rotations[kind], cache, layer)
            pause()
        return x if self.norm is None else self.norm(x)

    def _layers(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], *, is_long: bool = False
    ) -> Iterator[Tensor]:
        """The hidden states after each block, the last ones normalised."""
        x, masks, rotations = self._prepared(x, positions, masks, is_long=is_long)
        for layer, block in enumerate(self.blocks):
            kind = self.kinds[layer]
            x = block(x, masks[kind], None if layer in self.unrotated else rotations[kind], None, layer)
            pause()
            yield x if self.norm is None or layer + 1 < self.layers else self.norm(x)

    def _prepared(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], *, is_long: bool
    ) -> tuple[Tensor, list[AttentionMask], list[Rotation | None]]:
        """The inputs of the first block; masks and rotations: by `windows`."""
        if self.places is not None:
            x = x + self.places(positions).to(x.dtype)
        if self.segments is not None:
            x = x + self.segments[0].to(x.dtype)
        if self.input_norm is not None:
            x = self.input_norm(x)
        if self.projection is not None:
            x = linear(x, self.projection)
        if self.dropout:
            x = drop(x, self.dropout, self.training)
        masks = [
            mask._replace(tensor=mask.tensor.to(x.dtype))
            if mask.tensor is not None and mask.tensor.is_floating_point()
            else mask
            for mask in masks
        ]
        rotation = None if self.rotary is None else self._rotation(self.rotary, positions, x, is_long=is_long)
        rotations = [rotation] * len(masks)
        if self.window_rotary is not None and self.windows[-1] is not None:
            rotations[-1] = self.window_rotary(positions, x)
        return x, masks, rotations

    def _rotation(self, rotary: Rotary, positions: Tensor, x: Tensor, *, is_long: bool) -> Rotation:
        """That of each position; in rows longer than `turn`, whose earlier tokens were read again, another one."""
        if self.long_rotary is None or self.turn is None:
            return cast("Rotation", rotary(positions, x))
        long = self.long_rotary(positions, x)
        if is_long:
            return cast("Rotation", long)
        is_later = (positions >= self.turn)[..., None, None]
        return Rotation(*(torch.where(is_later, *both) for both in zip(long, rotary(positions, x), strict=True)))

    def _turned(self, cache: Cache) -> Cache:
        """The state in which rows of `turn` tokens, which grow longer now, are read again with the other angles."""
        assert self.turn is not None
        rows = cache.rows_of(self.turn)
        if not len(rows):
            return cache
        _, fresh = self._read_on(cache.last_inputs(rows, self.turn), self.start(len(rows)), None, is_long=True)
        return cache.replaced(rows, fresh)

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


def scaling_of(config: TransformerConfig) -> Scaling | Yarn | Divisors | None:
    """How the angles of rotary positions are scaled; None if they are not."""
    context = config.rotary_trained_context
    if config.rotary_scaling == "none":
        return None
    if config.rotary_scaling == "linear":
        return Scaling(config.rotary_factor)
    if config.rotary_scaling == "longrope":
        is_long = not config.changes_rotation and context < config.context
        return Divisors(config.rotary_long_divisors if is_long else config.rotary_divisors)
    if config.rotary_scaling == "yarn":
        ramp = config.rotary_low_factor, config.rotary_high_factor
        return Yarn.between(config.rotary_factor, *ramp, context, config.rotated_width, config.rotary_base)
    return Scaling(config.rotary_factor, context / config.rotary_low_factor, context / config.rotary_high_factor)
