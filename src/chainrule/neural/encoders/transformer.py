"""The Transformer as a context encoder: causal with a cache of keys and values as its state, or bidirectional.

Its blocks are in `blocks.py`; other ways of reading, which are not needed to understand it, are in `reading.py`.
Legend: B batch, T time, S keys, D width, H heads.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from chainrule.neural.encoders.blocks import Block, norm_of
from chainrule.neural.encoders.reading import TransformerReadings, in_type_of
from chainrule.neural.layers.basic import drop, initialise, pause
from chainrule.neural.layers.masks import AttentionMask, bidirectional_mask, cached_mask, causal_mask
from chainrule.neural.layers.positions import ALiBi, Learned, Relative, Rotary, Rotation, Sinusoidal
from chainrule.neural.layers.state import Cache

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import Bool, Float

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.layers.masks import Edit
    from chainrule.neural.layers.state import State


class Transformer(TransformerReadings):
    """Blocks in which each token attends to itself and to the tokens before it in its row.

    A state holds at most `context` tokens: before it reads one more, it drops the older half and reads the newer half
    (rounded down) again by itself. So the n-th token is read in the window that begins at `scoring.window_start`,
    however the text was cut into calls. If a window restricts each layer and the network is translation-invariant, a
    state never fills.
    """

    def __init__(self, config: TransformerConfig, *, is_bidirectional: bool = False) -> None:
        """Build the blocks.

        is_bidirectional: tokens also attend to later ones, as the configuration may also say; no incremental state
        exists.
        """
        super().__init__()
        self.is_bidirectional = is_bidirectional or config.is_bidirectional
        self.width, self.layers, self.window = config.width, config.layers, config.window
        self.windows, self.kinds = [config.window], [0] * config.layers  # of blocks; which of them each block has
        forgets = config.window is not None and config.is_translation_invariant
        self.context = None if forgets else config.context
        self.dropout = config.dropout
        self.places: Learned | Sinusoidal | None = None  # added to the vectors of tokens; saved under this name
        self.rotary = self._rotary(config) if config.positions == "rotary" else None
        self.bias: ALiBi | Relative | None = None  # of the scores of attention
        if config.positions == "learned":
            self.places = Learned(config.context, config.input_width, config.position_offset)
        elif config.positions == "sinusoidal":
            self.places = Sinusoidal(config.input_width)
        elif config.positions == "alibi":
            self.bias = ALiBi(config.heads)
        elif config.positions == "relative":
            self.bias = Relative(config.heads)
        self._add_inputs(config)
        self.blocks = nn.ModuleList(self._blocks_of(config))
        self.norm = self._norm(config) if config.norm_place == "pre" else None
        self._initialise(config)

    @property
    def reach(self) -> int | None:
        """As `Encoder.reach`."""
        return None if self.window is None else self.layers * (self.window - 1) + 1

    @property
    def has_cache(self) -> bool:
        """Whether its states hold keys and values."""
        return not self.is_bidirectional

    @property
    def kept(self) -> int:
        """How many tokens a full state keeps and reads again."""
        assert self.context is not None
        return self.context // 2

    def start(self, rows: int) -> Cache:
        """Return the state of rows that have read nothing."""
        return Cache.empty(rows, self.layers, next(self.parameters()).device, self.cache_bits)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """Return the hidden states and the new state, as `Encoder` does; without a state, rows are read from their
        beginning, and the new state is None.
        """
        if state is None:
            return self._read(x, starts), None
        assert isinstance(state, Cache)
        return self._read_on(x, state, starts)

    def hidden_layers(
        self, x: Float[Tensor, "B T D"], starts: Bool[Tensor, "B T"] | None = None
    ) -> Iterator[Float[Tensor, "B T D"]]:
        """Yield the layers of `Encoder.hidden_layers`; the last layer is normalised, as in `forward`."""
        yield from self._layers(x, *self._positions_and_masks(x, starts))

    def attention_maps(self, x: Float[Tensor, "B T D"]) -> list[Float[Tensor, "B H T T"]]:
        """Return the attention weights of each layer, for rows that are read from their beginning."""
        maps: list[Tensor] = []
        positions, masks = self._positions_and_masks(x, None, in_blocks=False)
        self._through(x, positions, [mask._replace(weights_out=maps) for mask in masks], None)
        return maps

    def read_edited(self, x: Float[Tensor, "B T D"], edit: Edit) -> Float[Tensor, "B T D"]:
        """Return the hidden states of rows that are read from their beginning; the outputs of heads and layers go
        through `edit`.
        """
        positions, masks = self._positions_and_masks(x, None)
        return self._through(x, positions, [mask._replace(edit=edit) for mask in masks], None)

    def _read(self, x: Tensor, starts: Tensor | None) -> Tensor:
        return self._through(x, *self._positions_and_masks(x, starts), None)

    def _positions_and_masks(
        self, x: Tensor, starts: Tensor | None, *, in_blocks: bool = True
    ) -> tuple[Tensor, list[AttentionMask]]:
        """Return positions, and masks by `windows`, for rows that are read from their beginning.

        in_blocks: as for `causal_mask`.
        """
        length, device = x.shape[1], x.device
        columns = torch.arange(length, device=device)
        positions, documents = columns[None], None
        if starts is not None:
            documents = starts.cumsum(1)
            positions = columns - torch.where(starts, columns, 0).cummax(1).values
        causal = partial(causal_mask, in_blocks=in_blocks and self.in_blocks)
        make = bidirectional_mask if self.is_bidirectional else causal
        return positions, [
            make(length, device, window=window, bias=self.bias, documents=documents)._replace(starts=starts)
            for window in self.windows
        ]

    def _read_on(self, x: Tensor, cache: Cache, starts: Tensor | None) -> tuple[Tensor, Cache]:
        length = x.shape[1]
        if self.context is not None and cache.longest + length > self.context:
            if length > 1:
                return self._read_in_parts(x, cache, starts, [1] * length)
            cache = self._halved(cache)
        return self._append(x, cache, starts)

    def _append(self, x: Tensor, cache: Cache, starts: Tensor | None, beside: Any = None) -> tuple[Tensor, Cache]:
        """Return hidden states of tokens for which a state has room, and the state after.

        beside: as in `AttentionMask`.
        """
        shortest = self.window if len(self.windows) == 1 else None
        cache, columns, first = cache.grown(x, starts, shortest, keep_inputs=self.context is not None)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        masks = [self._mask_read_on(cache, columns, first, window) for window in self.windows]
        masks = [mask._replace(starts=starts, beside=beside) for mask in masks]
        return self._through(x, positions, masks, cache), cache

    def _read_in_parts(
        self, x: Tensor, cache: Cache, starts: Tensor | None, lengths: list[int]
    ) -> tuple[Tensor, Cache]:
        hidden = []
        own_starts = [None] * len(lengths) if starts is None else torch.split_with_sizes(starts, lengths, 1)
        for part, own in zip(torch.split_with_sizes(x, lengths, 1), own_starts, strict=True):
            read, cache = self._read_on(part, cache, own)
            hidden.append(read)
        return torch.cat(hidden, 1), cache

    def _mask_read_on(self, cache: Cache, columns: Tensor, first: Tensor | None, window: int | None) -> AttentionMask:
        """Return the mask of queries in the last columns, which were just added to the cache.

        first: as for `cached_mask`.
        """
        length, even = len(columns), first is None and self.bias is None
        if even and cache.begin == cache.columns - length and window is None:
            return AttentionMask(causal=length > 1)  # the cache was empty
        if even and length == 1 and (window is None or cache.columns - cache.begin <= window):
            return AttentionMask()  # the cache gives only keys that the query attends to
        keys = torch.arange(cache.begin, cache.columns, device=columns.device)
        return cached_mask(columns, keys, first, window, self.bias)

    def _halved(self, cache: Cache) -> Cache:
        """Return the state in which full rows keep only the newer half of their tokens, read again by itself."""
        assert self.context is not None
        full = cache.rows_of(self.context)
        fresh = self.start(len(full))
        if self.kept:
            _, fresh = self._read_on(cache.last_inputs(full, self.kept), fresh, None)
        return cache.replaced(full, fresh)

    def _through_blocks(self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None) -> Tensor:
        x, masks, rotations = self._prepared(x, positions, masks)
        if (hidden := self._read_packed(x, masks, rotations, cache)) is not None:
            return hidden
        dtype = x.dtype
        for layer in range(self.layers):
            x = self._through_block(x, layer, masks, rotations, cache)
        return (x if self.norm is None else self.norm(x)).to(dtype)

    def _layers(self, x: Tensor, positions: Tensor, masks: list[AttentionMask]) -> Iterator[Tensor]:
        """Yield the hidden states after each block, the last ones normalised."""
        x, masks, rotations = self._prepared(x, positions, masks)
        dtype = x.dtype
        for layer in range(self.layers):
            x = self._through_block(x, layer, masks, rotations, None)
            yield (x if self.norm is None or layer + 1 < self.layers else self.norm(x)).to(dtype)

    def _through_block(
        self, x: Tensor, layer: int, masks: list[AttentionMask], rotations: list[Rotation | None], cache: Cache | None
    ) -> Tensor:
        """Return the hidden states after a block. masks, rotations: by `windows`."""
        block, mask, rotation = self._block_of(layer), masks[self.kinds[layer]], self._rotation_of(layer, rotations)
        x = block(*in_type_of(block, x, mask, rotation, cache), cache, layer)
        pause()
        return x

    def _prepared(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask]
    ) -> tuple[Tensor, list[AttentionMask], list[Rotation | None]]:
        """Return the inputs of the first block; masks and rotations: by `windows`."""
        x = self._placed(x, positions)
        if self.dropout:
            x = drop(x, self.dropout, self.training)
        rotation = None if self.rotary is None else self.rotary(positions, self._like(x))
        return x, [mask.in_type(x.dtype) for mask in masks], [rotation] * len(masks)

    def _placed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the vectors of tokens with those of their positions."""
        return x if self.places is None else x + self.places(positions).to(x.dtype)

    # What kinds of Transformers have their own of:

    def _add_inputs(self, config: TransformerConfig) -> None:
        """Add layers between the positions and the first block."""

    def _blocks_of(self, config: TransformerConfig) -> Iterator[Block]:
        return (Block(config) for _ in range(config.layers))

    def _norm(self, config: TransformerConfig, width: int | None = None) -> nn.Module:
        return norm_of(config, width)

    def _rotary(self, config: TransformerConfig) -> Rotary:
        return Rotary(config.width_of_heads, config.rotary_base)

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
