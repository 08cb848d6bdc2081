"""The blocks of opened Transformers: norms elsewhere, experts, recurrences in the place of attention, further inputs.

Legend: B batch, T time, D width, P numbers of a further input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.features.open.network.attention import OpenAttention
from chainrule.neural.encoders.blocks import Block
from chainrule.neural.layers.basic import FeedForward, activation_of, norm
from chainrule.neural.layers.matrix_products import linear
from chainrule.neural.packed.reading import BlockParts, has_only

if TYPE_CHECKING:
    from jaxtyping import Float

    from chainrule.features.open.network.config import OpenSettings
    from chainrule.features.open.network.experts import ExpertsBeside
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache


class OpenBlock(Block):
    """As `Block`, and with norms of what sub-layers give.

    after       x = x + norm(attention(x));  x = x + norm(feed_forward(x))      OLMo 2, 2025
    both        x = x + norm(attention(norm(x)));  ...                          Gemma 2, 2024
    """

    def __init__(self, config: OpenSettings, layer: int) -> None:
        """Build a block. layer: its number, from 0."""
        nn.Module.__init__(self)
        mixer = config.mixer(layer)
        recurrent = mixer.removeprefix("attention_")
        self.attends, self.recurrence = config.attends(layer), None
        if recurrent not in ("attention", "none"):
            from chainrule.features.open.network.recurrences import recurrence

            self.recurrence = recurrence(config, recurrent)
        if self.attends:
            self.attention = attention_of(config, layer)
        self.feed_forward: nn.Module | None = None
        self.experts_beside: ExpertsBeside | None = None
        is_fed, has_experts = config.is_fed(layer), config.has_experts(layer)
        if is_fed and (not has_experts or config.expert_width):
            self.feed_forward = feed_forward_of(config, config.hidden_width_of(layer))
        if is_fed and has_experts:
            from chainrule.features.open.network.experts import Experts, ExpertsBeside

            experts = Experts(config)
            if self.feed_forward is None:
                self.feed_forward = experts
            else:
                norms = [opened_norm(config) for _ in range(3)]
                self.experts_beside = ExpertsBeside(experts, norms, config.norm_epsilon)
        self.post, self.parallel = config.norm_place == "post", config.parallel
        before = 0 if config.sublayer_norms == "after" else 2
        if (config.parallel and config.shared_norm) or not is_fed or mixer == "none":
            before = 1
        after = 0 if config.sublayer_norms == "before" else 2
        self.norms = nn.ModuleList(opened_norm(config) for _ in range(before))
        if layer == 0 and before and not config.first_norm:
            self.norms[0] = nn.Identity()
        self.norms_after = nn.ModuleList(opened_norm(config) for _ in range(after))
        self.dropout, self.residual_scale = config.dropout, config.residual_scale
        self.layer_input = LayerInput(config) if config.layer_input_width else None
        self.block_scale = nn.Parameter(torch.ones(1)) if config.block_scales else None
        self.recurrence_scale = config.recurrence_scale if self.recurrence is not None else 1.0

    @property
    def heads(self) -> int:
        return self.attention.heads if self.attends else 0

    @property
    def is_usual(self) -> bool:
        """Whether it has attention alone, and a plain feed-forward layer."""
        return self.attends and self.recurrence is None and isinstance(self.feed_forward, FeedForward)

    @property
    def scale(self) -> float:
        return self.residual_scale

    def for_kernels(self) -> BlockParts | None:
        """Implement `Block.for_kernels`."""
        if not self.is_usual:
            return None
        attention = cast("OpenAttention", self.attention)
        if not (has_only(self, _KNOWN_OF_BLOCK) and has_only(attention, _KNOWN_OF_ATTENTION)):
            return None
        return BlockParts(
            attention,
            cast("FeedForward", self.feed_forward),
            self.norms,
            self.parallel,
            self.norms_after,
            self.residual_scale,
            attention.factor,
            attention.cap,
            attention.joint,
            attention.above_one,
        )

    def is_by_token(self) -> bool:
        """Implement `Block.is_by_token`."""
        return self.is_usual and self.experts_beside is None and super().is_by_token()

    def takes_float64(self) -> bool:
        """Implement `Block.takes_float64`."""
        is_usual = self.is_usual and self.experts_beside is None and self.layer_input is None
        return is_usual and super().takes_float64()

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors after the block, as `Block` does."""
        x = self._read(x, mask, rotation, cache, layer)
        if self.layer_input is not None:
            x = x + self.layer_input(x, mask.beside.layer_inputs[:, :, layer])
        return x if self.block_scale is None else x * self.block_scale

    def _read(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """Return the sums after both sub-layers."""
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
        if not self.attends and self.recurrence is None:
            return x + self._dropped(self._fed(normed, mask, layer))
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

    def _mixed(
        self, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None, layer: int
    ) -> Tensor:
        """Return the output of attention, of a recurrence, or of both together."""
        attended = cast("Tensor", self.attention(x, mask, rotation, cache, layer)) if self.attends else None
        if self.recurrence is None:
            assert attended is not None
            return attended
        out, memory = self.recurrence(x, mask.starts, None if cache is None else cache.memories[layer])
        if cache is not None:
            cache.memories[layer] = memory
        out = out if self.recurrence_scale == 1 else out * self.recurrence_scale
        return cast("Tensor", out if attended is None else out + attended)

    def _dropped(self, x: Tensor) -> Tensor:
        """Return the output of a sub-layer, scaled and after dropout."""
        return super()._dropped(x if self.residual_scale == 1 else x * self.residual_scale)


# As for `Block`; all else must be off.
_KNOWN_OF_BLOCK = frozenset(
    """
    attends attention feed_forward parallel norms norms_after dropout residual_scale recurrence_scale dtype
    """.split()  # noqa: SIM905  # a list would have a line each
)
_KNOWN_OF_ATTENTION = frozenset(
    """
    heads head_width key_heads dropout query_key_value out normed epsilon joint above_one gains cap factor cache_bits
    """.split()  # noqa: SIM905  # a list would have a line each
)


class LayerInput(nn.Module):
    """norm(U (a(W x) * e)), e being the vector that a token has for this block (Gemma 4, Google 2026)."""

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        width = config.layer_input_width
        self.gate = nn.Linear(config.width, width, bias=False)
        self.out, self.norm = nn.Linear(width, config.width, bias=False), opened_norm(config)
        self.activation = activation_of(config.feed_forward)

    def forward(self, x: Float[Tensor, "B T D"], own: Float[Tensor, "B T P"]) -> Float[Tensor, "B T D"]:
        """Return the vectors to add."""
        added = linear(self.activation(linear(x, self.gate)) * own, self.out)
        return cast("Tensor", self.norm(added.to(x.dtype)))


class LayerInputs(nn.Module):
    """What each block adds for a token: (norm(W x / root D) + e) / root 2, e being the token's vector for the block
    (Gemma 4, Google 2026).
    """

    def __init__(self, config: OpenSettings) -> None:
        super().__init__()
        self.width, self.each = config.width, config.layer_input_width
        self.projection = nn.Linear(config.width, config.layers * self.each, bias=False)
        self.norm = opened_norm(config, self.each)

    def forward(self, x: Float[Tensor, "B T E"]) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T layers P"]]:
        """Return the vectors of tokens, and what is added. x: both vectors of each token, one after the other."""
        x, own = x[..., : self.width], x[..., self.width :]
        shape = (*x.shape[:-1], -1, self.each)
        projected = self.norm((linear(x, self.projection).to(x.dtype) * self.width**-0.5).view(shape))
        return x, (projected + own.reshape(shape)) * 2**-0.5


class ScaledFeedForward(FeedForward):
    """W2 (a(s W1 x) * W3 x) s', with two numbers s and s' (Falcon-H1, 2025)."""

    def __init__(self, config: OpenSettings, hidden: int) -> None:
        super().__init__(config.feed_forward, config.width, hidden, bias=config.has_biases("feed_forward"))
        self.of_gate, self.of_sum = config.feed_forward_scales

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the layer's output, for each position alone."""
        return linear(linear(x, self.up), self.down, self._scaled) * self.of_sum

    def _scaled(self, hidden: Tensor) -> Tensor:
        gate, hidden = hidden.chunk(2, -1)
        return self._activated(torch.cat((gate * self.of_gate, hidden), -1))


def attention_of(config: OpenSettings, layer: int) -> OpenAttention:
    """Return the attention of a block. layer: its number, from 0."""
    if config.key_rank is None:
        return OpenAttention(config, layer)
    from chainrule.features.open.network.latent import LatentAttention

    return LatentAttention(config, layer)


def feed_forward_of(config: OpenSettings, hidden: int) -> FeedForward:
    """Return a feed-forward layer. hidden: its hidden numbers."""
    if config.feed_forward_scales:
        return ScaledFeedForward(config, hidden)
    layer = FeedForward(config.feed_forward, config.width, hidden, bias=config.has_biases("feed_forward"))
    if not config.up_biases:
        layer.up = nn.Linear(config.width, layer.up.out_features, bias=False)
    return layer


class LayerNormFromOne(nn.Module):
    """LayerNorm with a gain of 1 + w (Nemotron 4, NVIDIA 2024)."""

    def __init__(self, width: int, epsilon: float | None, *, bias: bool) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.zeros(width)), 1e-5 if epsilon is None else epsilon
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*shape D"]) -> Float[Tensor, "*shape D"]:
        """Return the normalised vectors."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return F.layer_norm(x, self.weight.shape, (1 + self.weight).to(x.dtype), bias, self.epsilon)


def opened_norm(config: OpenSettings, width: int | None = None) -> nn.Module:
    """Return a norm with the settings that all norms of a Transformer have. width: None for that of hidden states."""
    width = config.width if width is None else width
    if config.norm == "layer" and config.norm_gain and config.gains_above_one:
        return LayerNormFromOne(width, config.norm_epsilon, bias=config.biases)
    return norm(
        config.norm,
        width,
        gain=config.norm_gain,
        bias=config.biases,
        epsilon=config.norm_epsilon,
        gains_above_one=config.gains_above_one,
    )
