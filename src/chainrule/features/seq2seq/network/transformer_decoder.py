"""The decoder of Vaswani et al. 2017: self-attention, attention to the source, and a feed-forward layer in each block.

Legend: B rows, T time, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.errors import SettingError
from chainrule.features.seq2seq.network.cross_attention import CrossAttention
from chainrule.neural.config.transformer import TransformerConfig
from chainrule.neural.encoders.blocks import Attention, norm_of
from chainrule.neural.layers.basic import FeedForward, drop
from chainrule.neural.layers.masks import AttentionMask, cached_mask, causal_mask
from chainrule.neural.layers.positions import Relative, Rotary, Rotation, Sinusoidal
from chainrule.neural.layers.state import Cache

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

    from chainrule.features.seq2seq.network.config import Seq2SeqConfig
    from chainrule.features.seq2seq.network.cross_attention import KeysAndValues, Source
    from chainrule.neural.layers.state import State


def block_config(config: Seq2SeqConfig, layers: int) -> TransformerConfig:
    """Return the configuration of the blocks of the encoder or the decoder."""
    is_vaswani, is_modern = config.style == "vaswani", config.style == "modern"
    return TransformerConfig(
        layers=layers,
        width=config.width,
        heads=config.heads,
        head_width=config.head_width,
        feed_forward=config.feed_forward or ("relu_squared" if is_modern else "relu"),
        feed_forward_width=config.feed_forward_width,
        norm="layer" if is_vaswani else "rms",
        norm_place=config.norm_place,
        norm_gain=not is_modern,
        norm_epsilon=config.norm_epsilon,
        score="dot" if config.style == "t5" else "scaled_dot",
        query_key_norm=is_modern,
        biases=is_vaswani,
        positions=config.positions,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
    )


class PositionEncoding(nn.Module):
    """Adds sinusoids to vectors, or gives the rotation for queries and keys, or does neither.

    Biases by distance and learned vectors are no part of it, since encoder and decoder have different ones.
    """

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        self.sinusoidal = None
        if config.positions == "sinusoidal":
            self.sinusoidal = Sinusoidal(
                config.width,
                interleaved=config.interleaved_sinusoids,
                inclusive=config.inclusive_sinusoids,
                offset=config.position_offset,
            )
        self.rotary = Rotary(config.width_of_heads, 10_000.0) if config.positions == "rotary" else None

    def forward(
        self, x: Float[Tensor, "B T D"], positions: Int64[Tensor, "#B T"]
    ) -> tuple[Float[Tensor, "B T D"], Rotation | None]:
        """Return vectors with their positions added, and the rotation, if there is one."""
        if self.sinusoidal is not None:
            x = x + self.sinusoidal(positions).to(x.dtype)
        return x, None if self.rotary is None else self.rotary(positions, x)


def learned_places(config: Seq2SeqConfig, positions: int) -> nn.Embedding | None:
    """Return a vector for each position, after rows that are not used; None for no positions."""
    return nn.Embedding(config.position_offset + positions, config.width) if positions else None


class DecoderBlock(nn.Module):
    """Three sub-layers with residual connections; norms come before each sub-layer, or after each sum."""

    def __init__(self, config: Seq2SeqConfig, blocks: TransformerConfig) -> None:
        super().__init__()
        self.attention = Attention(blocks)
        self.look = CrossAttention(
            config.width,
            config.heads,
            config.score,
            longest=config.max_source,
            biases=blocks.biases,
            dropout=config.attention_dropout,
            head_width=config.head_width,
        )
        self.feed_forward = FeedForward(blocks.feed_forward, config.width, blocks.hidden_width, bias=blocks.biases)
        self.norms = nn.ModuleList(norm_of(blocks) for _ in range(3))
        self.post, self.dropout = config.norm_place == "post", config.dropout

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        mask: AttentionMask,
        rotation: Rotation | None,
        cache: Cache | None,
        layer: int,
        source: Source,
    ) -> Float[Tensor, "B T D"]:
        """Return the vectors after the block.

        mask, rotation, cache, layer: as for `Attention`, of the target on itself.
        """
        before, between, after = self.norms
        if self.post:
            x = before(x + self._dropped(self.attention(x, mask, rotation, cache, layer)))
            x = between(x + self._dropped(self.look(x, source, layer)))
            return cast("Tensor", after(x + self._dropped(self.feed_forward(x))))
        x = x + self._dropped(self.attention(before(x), mask, rotation, cache, layer))
        x = x + self._dropped(self.look(between(x), source, layer))
        return x + self._dropped(self.feed_forward(after(x)))

    def _dropped(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)


class TransformerDecoder(nn.Module):
    """A Decoder whose state is a cache of keys and values."""

    def __init__(self, config: Seq2SeqConfig) -> None:
        super().__init__()
        blocks = block_config(config, config.decoder_layers)
        self.width, self.dropout, self.positions = config.width, config.dropout, PositionEncoding(config)
        self.offset = config.position_offset
        self.bias = Relative(config.heads) if config.positions == "relative" else None
        self.places = learned_places(config, config.learned_positions)
        self.embedding_norm = norm_of(blocks) if config.embedding_norm else None
        self.blocks = nn.ModuleList(DecoderBlock(config, blocks) for _ in range(config.decoder_layers))
        self.norm = norm_of(blocks) if config.norm_place == "pre" else None

    def keys_and_values(self, memory: Float[Tensor, "M S D"]) -> tuple[KeysAndValues, ...]:
        """Implement `Decoder.keys_and_values`."""
        return tuple(cast("DecoderBlock", block).look.keys_and_values(memory) for block in self.blocks)

    def start(self, source: Source) -> Cache:
        """Implement `Decoder.start`."""
        return Cache.empty(len(source.rows), len(self.blocks), source.memory.device)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State, starts: Bool[Tensor, "B T"] | None, source: Source
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return the hidden states and the new state, as `Decoder` does."""
        length = x.shape[1]
        if state is None:
            columns = torch.arange(length, device=x.device)
            documents = None if starts is None else starts.cumsum(1)
            positions = columns[None]
            if starts is not None:
                positions = columns - torch.where(starts, columns, 0).cummax(1).values
            mask = causal_mask(length, x.device, window=None, bias=self.bias, documents=documents)
            return self._through(x, positions, mask, None, source), None
        assert isinstance(state, Cache)
        cache, columns, first = state.grown(x, starts, None, keep_inputs=False)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        if first is None and length == 1 and self.bias is None:
            mask = AttentionMask()
        else:
            keys = torch.arange(cache.begin, cache.columns, device=x.device)
            mask = cached_mask(columns, keys, first, None, self.bias)
        return self._through(x, positions, mask, cache, source), cache

    def _through(
        self, x: Tensor, positions: Tensor, mask: AttentionMask, cache: Cache | None, source: Source
    ) -> Tensor:
        x, rotation = self.positions(x, positions)
        if self.places is not None:
            known = self.places.num_embeddings - self.offset
            if (last := int(positions.max())) >= known:
                raise SettingError(
                    f"the decoder has vectors for {known:,} positions, but is to read token "
                    f"{last + 1:,}; give shorter texts, or a lower max_tokens"
                )
            x = x + self.places(positions + self.offset)
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        x = drop(x, self.dropout, self.training)
        if source.weights_out is not None:
            mask = mask._replace(weights_out=source.weights_out.target)
        for layer, block in enumerate(self.blocks):
            x = block(x, mask, rotation, cache, layer, source)
        return x if self.norm is None else self.norm(x)
