"""The Transformer of opened checkpoints: windows and angles by layer, shared blocks and keys, further inputs.

Legend: B batch, T time, D width, H heads.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.features.open.network.angles import Divisors, scaling_of
from chainrule.features.open.network.attention import NOTHING, Beside
from chainrule.features.open.network.blocks import LayerInputs, OpenBlock, opened_norm
from chainrule.neural.build import OuterLayers, initialised_vectors
from chainrule.neural.encoders.masked import MaskedTransformer
from chainrule.neural.layers.basic import Embedding, OutputTransform
from chainrule.neural.layers.matrix_products import linear
from chainrule.neural.layers.positions import Relative, Rotary, Rotation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.features.open.network.config import OpenSettings
    from chainrule.features.open.network.distances import Distances
    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.encoders.blocks import Block
    from chainrule.neural.encoders.reading import BlockReadings
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.state import Cache


class OpenTransformer(MaskedTransformer):
    """As `Transformer`, with what opened checkpoints may have.

    Where angles are others for texts longer than `turn`, such texts are read twice, and a state that grows beyond it is
    read again with the other angles.
    """

    def __init__(self, config: OpenSettings) -> None:
        super().__init__(config)
        has_window = [config.has_window(layer) for layer in range(config.layers)]
        self.windows = [*[None] * (not all(has_window)), *[config.window] * any(has_window)]
        self.kinds = [len(self.windows) - 1 if own else 0 for own in has_window]  # which of them each block has
        forgets = all(own or not config.attends(layer) for layer, own in enumerate(has_window))
        self.context = None if forgets and config.is_translation_invariant else config.context
        self.in_blocks = config.score_cap is None and not config.attention_sinks
        self.is_stateful = config.is_stateful
        self.unrotated = frozenset(config.unrotated_layers)
        self.block_of = [layer * config.distinct_blocks // config.layers for layer in range(config.layers)]
        self.lends = config.shared_key_layers > 0
        self.takes_float64 = not self.lends and self.distances is None
        self.turn = config.rotary_trained_context if self.long_rotary is not None else None
        self.growth, self.grows_every = config.query_growth, config.rotary_trained_context

    def _add_inputs(self, config: TransformerConfig) -> None:
        own = cast("OpenSettings", config)
        self.window_rotary: Rotary | None = None  # of blocks with a window, if theirs is another
        self.long_rotary: Rotary | None = None  # of texts longer than `turn`
        if own.positions == "rotary":
            others = own.window_rotary_base, own.full_head_width, own.rotary_turning
            if any(value is not None for value in others):
                self.window_rotary = Rotary(own.rotated_width, own.window_rotary_base or own.rotary_base)
            if own.changes_rotation:
                scaling = Divisors(own.rotary_long_divisors)
                self.long_rotary = Rotary(own.rotated_width, own.rotary_base, scaling, own.rotary_amplitude)
        if own.relative_bias:
            self.bias = Relative(own.heads, two_sided=self.is_bidirectional)
        self.distances: Distances | None = None
        if own.distance_buckets:
            from chainrule.features.open.network.distances import Distances

            sizes = own.distance_buckets, own.distance_limit, own.context
            self.distances = Distances(*sizes, opened_norm(own), own.width)
        super()._add_inputs(own)
        self.projection = nn.Linear(own.input_width, own.width) if own.input_width != own.width else None
        self.layer_inputs = LayerInputs(own) if own.layer_input_width else None

    def _blocks_of(self, config: TransformerConfig) -> Iterator[Block]:
        own = cast("OpenSettings", config)
        return (OpenBlock(own, layer) for layer in range(own.distinct_blocks))

    def _norm(self, config: TransformerConfig, width: int | None = None) -> nn.Module:
        return opened_norm(cast("OpenSettings", config), width)

    def _rotary(self, config: TransformerConfig) -> Rotary:
        own = cast("OpenSettings", config)
        width = own.rotated_width if own.full_head_width is None else own.full_head_width
        return Rotary(width, own.rotary_base, scaling_of(own), own.rotary_amplitude)

    def _block_of(self, layer: int) -> BlockReadings:
        return super()._block_of(self.block_of[layer])

    def _rotation_of(self, layer: int, rotations: list[Rotation | None]) -> Rotation | None:
        return None if layer in self.unrotated else super()._rotation_of(layer, rotations)

    @property
    def reach(self) -> int | None:
        """As `Encoder.reach`."""
        return None if len(self.windows) > 1 or self.is_stateful else super().reach

    @property
    def has_cache(self) -> bool:
        """Whether its states hold keys and values."""
        return super().has_cache and any(cast("OpenBlock", block).heads for block in self.blocks)

    def packs_texts(self) -> bool:
        """Implement `Transformer.packs_texts`."""
        return self.turn is None and super().packs_texts()

    def room_ahead(self, cache: Cache) -> int:
        """Return the room of `Transformer.room_ahead`; angles must not turn meanwhile."""
        room = super().room_ahead(cache)
        return room if self.turn is None or cache.longest > self.turn else min(room, self.turn - cache.longest)

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T D"]]:
        """Implement `Encoder.hidden_layers`."""
        if not self._turns(x.shape[1]):
            yield from super().hidden_layers(x, starts)
            return
        positions, masks = self._positions_and_masks(x, starts)
        both = (self._layers(x, positions, own) for own in (masks, _long(masks)))
        for short, long in zip(*both, strict=True):
            yield self._by_length(positions, short, long)

    def attention_maps(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "B H T T"]]:
        """Implement `Transformer.attention_maps`."""
        if not self._turns(x.shape[1]):
            return super().attention_maps(x)
        maps: list[Tensor] = []
        positions, masks = self._positions_and_masks(x, None, in_blocks=False)
        self._through(x, positions, _long([mask._replace(weights_out=maps) for mask in masks]), None)
        return maps

    def _read(self, x: Tensor, starts: Tensor | None) -> Tensor:
        positions, masks = self._positions_and_masks(x, starts)
        short = self._through(x, positions, masks, None)
        if not self._turns(x.shape[1]):
            return short
        return self._by_length(positions, short, self._through(x, positions, _long(masks), None))

    def _turns(self, length: int) -> bool:
        """Return whether rows of that length may have texts for which angles are others."""
        return self.turn is not None and length > self.turn

    def _by_length(self, positions: Tensor, short: Tensor, long: Tensor) -> Tensor:
        """Return hidden states by how long the text is at each of its tokens, so that none depends on those after
        it.
        """
        assert self.turn is not None
        return torch.where((positions >= self.turn)[..., None], long, short)

    def _read_on(self, x: Tensor, cache: Cache, starts: Tensor | None) -> tuple[Tensor, Cache]:
        length = x.shape[1]
        is_full = self.context is not None and cache.longest + length > self.context
        if (length > 1 and is_full) or not self._turns(cache.longest + length):
            return super()._read_on(x, cache, starts)
        assert self.turn is not None
        if length > 1 and (starts is not None or not cache.even):
            return self._read_in_parts(x, cache, starts, [1] * length)
        if cache.longest < self.turn:
            before = self.turn - cache.longest
            return self._read_in_parts(x, cache, starts, [before, length - before])
        cache = self._halved(cache) if is_full else cache
        if self._turns(cache.longest + length):
            cache = self._turned(cache)
        return self._append(x, cache, starts)

    def _turned(self, cache: Cache) -> Cache:
        """Return the state after rows of `turn` tokens, which grow longer now, are read again with the other angles."""
        assert self.turn is not None
        rows = cache.rows_of(self.turn)
        if not len(rows):
            return cache
        fresh = self.start(len(rows))
        _, fresh = self._append(cache.last_inputs(rows, self.turn), fresh, None, NOTHING._replace(is_long=True))
        return cache.replaced(rows, fresh)

    def _prepared(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask]
    ) -> tuple[Tensor, list[AttentionMask], list[Rotation | None]]:
        beside = cast("Beside", masks[0].beside or NOTHING)
        if self.layer_inputs is not None:
            x, layer_inputs = self.layer_inputs(x)
            beside = beside._replace(layer_inputs=layer_inputs)
        if self.lends:
            beside = beside._replace(lent={})
        if self.distances is not None:
            beside = beside._replace(distances=self.distances(x.shape[1]))
        if self.growth:
            beside = beside._replace(growth=1 + self.growth * (positions // self.grows_every).log1p()[..., None, None])
        x, masks, rotations = super()._prepared(x, positions, masks)
        if self.long_rotary is not None and rotations[0] is not None:
            rotations = [self._by_position(rotations[0], positions, x, is_long=beside.is_long)] * len(masks)
        if self.window_rotary is not None and self.windows[-1] is not None:
            rotations[-1] = self.window_rotary(positions, self._like(x))
        return x, [mask._replace(beside=beside) for mask in masks], rotations

    def _placed(self, x: Tensor, positions: Tensor) -> Tensor:
        x = super()._placed(x, positions)
        return x if self.projection is None else linear(x, self.projection)

    def _by_position(self, short: Rotation, positions: Tensor, x: Tensor, *, is_long: bool) -> Rotation:
        """Return the angle of each position; another one in rows longer than `turn`, whose earlier tokens were read
        again.
        """
        assert self.long_rotary is not None
        assert self.turn is not None
        long = cast("Rotation", self.long_rotary(positions, self._like(x)))
        if is_long:
            return long
        is_later = (positions >= self.turn)[..., None, None]
        return Rotation(*(torch.where(is_later, *both) for both in zip(long, short, strict=True)))


def _long(masks: list[AttentionMask]) -> list[AttentionMask]:
    return [mask._replace(beside=NOTHING._replace(is_long=True)) for mask in masks]


def outer_layers(config: OpenSettings, vocabulary_size: int) -> OuterLayers:
    """Return the embedding and the output, with what opened checkpoints may have."""
    width = config.input_width
    embedding = Embedding(
        vocabulary_size,
        width,
        scale=(math.sqrt(width) if config.scaled_embedding else 1.0) * config.embedding_scale,
        norm=opened_norm(config, width) if config.embedding_norm else None,
        token_dropout=config.embedding_dropout,
        beside=config.layers * config.layer_input_width,
        beside_scale=math.sqrt(config.layer_input_width),
    )
    weight, transform = initialised_vectors(config, embedding), None
    if config.output_transform:
        norm = opened_norm(config, width)
        transform = OutputTransform(config.feed_forward, (config.width, width), norm, bias=config.biases)
    return OuterLayers(embedding, weight, config.output_bias, transform, config.logit_scale, config.logit_cap)
