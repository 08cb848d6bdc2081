"""The Transformer as a context encoder: causal with a cache of keys and values as its state, or bidirectional.

Legend: B batch, T time, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.base.lanes import SCALED
from chainrule.errors import SettingError
from chainrule.neural.device import SHARE, in_shares
from chainrule.neural.encoders.blocks import Attention, Block, check_float64_layers, chooses_type, norm_of
from chainrule.neural.layers.basic import drop, initialise, pause
from chainrule.neural.layers.masks import AttentionMask, Step, bidirectional_mask, cached_mask, causal_mask
from chainrule.neural.layers.matrix_products import is_in_blocks, linear, one_by_one
from chainrule.neural.layers.positions import (
    ALiBi,
    Distances,
    Divisors,
    Learned,
    Relative,
    Rotary,
    Rotation,
    Sinusoidal,
    scaling_of,
)
from chainrule.neural.layers.state import Cache
from chainrule.neural.packed.reading import PackedReader, packed_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Bool, Float

    from chainrule.neural.config import TransformerConfig
    from chainrule.neural.layers.masks import Edit
    from chainrule.neural.layers.state import State


_SHARED_WEIGHTS = 1 << 23  # of blocks: so many stay in the processor's cache, where each thread may read all of them
MOST_AHEAD = 32  # tokens of a row that are read in one pass with the bits of one after another


class Transformer(nn.Module):
    """Blocks in which each token attends to itself and to the tokens before it in its row.

    A state holds at most `context` tokens: before it reads one more, it drops the older half and reads the newer half
    (rounded down) again by itself. So the n-th token is read in the window that begins at `scoring.window_start`,
    however the text was cut into calls. If a window restricts each layer and the network is translation-invariant, a
    state never fills.
    """

    def __init__(self, config: TransformerConfig, *, is_bidirectional: bool = False) -> None:
        """is_bidirectional: tokens also attend to later ones, as the configuration may also say; no incremental state
        exists.
        """
        super().__init__()
        self.is_bidirectional = is_bidirectional = is_bidirectional or config.is_bidirectional
        self.width, self.window, self.layers = config.width, config.window, config.layers
        has_window = [config.has_window(layer) for layer in range(config.layers)]
        self.windows: list[int | None] = [*[None] * (not all(has_window)), *[config.window] * any(has_window)]
        self.kinds = [len(self.windows) - 1 if own else 0 for own in has_window]  # which of them each block has
        self.in_blocks, self.turn = config.score_cap is None and not config.attention_sinks, None
        self.unrotated = frozenset(config.unrotated_layers)
        forgets = all(own or config.mixer(layer) != "attention" for layer, own in enumerate(has_window))
        self.is_stateful = config.is_stateful
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
            width = config.rotated_width if config.full_head_width is None else config.full_head_width
            self.rotary = Rotary(width, config.rotary_base, scaling_of(config), config.rotary_amplitude)
            own = config.window_rotary_base, config.full_head_width, config.rotary_turning
            if any(value is not None for value in own):
                self.window_rotary = Rotary(config.rotated_width, config.window_rotary_base or config.rotary_base)
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
        self.distances: Distances | None = None
        if config.distance_buckets:
            sizes = config.distance_buckets, config.distance_limit, config.context
            self.distances = Distances(*sizes, norm_of(config), config.width)
        inputs = config.input_width
        self.segments = nn.Parameter(torch.zeros(config.segments, inputs)) if config.segments else None
        self.input_norm = norm_of(config, inputs) if config.input_norm else None
        self.projection = nn.Linear(inputs, config.width) if inputs != config.width else None
        self.lends = config.shared_key_layers > 0
        self.layer_inputs = LayerInputs(config) if config.layer_input_width else None
        self.blocks = nn.ModuleList(Block(config, layer) for layer in range(config.distinct_blocks))
        self.block_of = [layer * config.distinct_blocks // config.layers for layer in range(config.layers)]
        self.norm = norm_of(config) if config.norm_place == "pre" else None
        self.packed: PackedReader | None = None  # of weights in blocks
        self.cache_bits: int | None = None
        self.float64_layers = 0  # the first ones, of texts that are read from their beginning
        self.is_small = sum(weight.numel() for weight in self.blocks.parameters()) <= _SHARED_WEIGHTS
        self._initialise(config)

    @property
    def reach(self) -> int | None:
        """As `Encoder.reach`."""
        if self.window is None or len(self.windows) > 1 or self.is_stateful:
            return None
        return self.layers * (self.window - 1) + 1

    @property
    def has_cache(self) -> bool:
        """Whether its states hold keys and values."""
        return not self.is_bidirectional and any(not cast("Block", block).recurrent for block in self.blocks)

    def set_cache_bits(self, bits: int | None) -> None:
        """Keeps keys and values in 8 bits, as `state.in_eight_bits` does; None: in the type of hidden states.

        They are rounded where texts are read without a state, too: figures are the same. Raises SettingError.
        """
        attentions = [module for module in self.modules() if isinstance(module, Attention)]
        widths = sorted({own.head_width for own in attentions})
        if bits is not None and any(width % SCALED for width in widths):
            raise SettingError(
                f"cache_bits rounds blocks of {SCALED} numbers, and this model's heads have "
                f"{' and '.join(map(str, widths))}; leave it out"
            )
        self.cache_bits = bits
        for own in attentions:
            own.cache_bits = bits

    def set_float64_layers(self, count: int) -> None:
        """Computes the first blocks in float64 where texts are read without a state: what float32 rounds off there, all
        later blocks amplify. Raises SettingError.
        """
        blocks = [cast("Block", self.blocks[i]) for i in self.block_of]
        check_float64_layers(count, blocks, is_usual=not self.lends and self.distances is None)
        self.float64_layers = count
        for layer, block in enumerate(blocks):
            block.dtype = None if not count else torch.float64 if layer < count else torch.float32

    @property
    def kept(self) -> int:
        """How many tokens a full state keeps and reads again."""
        assert self.context is not None
        return self.context // 2

    def start(self, rows: int) -> Cache:
        """The state of rows that have read nothing."""
        return Cache.empty(rows, self.layers, next(self.parameters()).device, self.cache_bits)

    def forward(
        self, x: Float[Tensor, "B T D"], state: State = None, starts: Bool[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], State]:
        """As `Encoder`; without a state, rows are read from their beginning, and the new state is None."""
        if state is None:
            return self._read(x, starts), None
        assert isinstance(state, Cache)
        return self._read_on(x, state, starts)

    def packs_texts(self) -> bool:
        """Whether `read_texts` gives each text the bits that it has when it is read alone: where all that is computed
        of a token but attention depends on this token only, in an order that other tokens do not change.
        """
        if self.is_bidirectional or self.is_stateful or self.turn is not None or torch.is_grad_enabled():
            return False
        return all(cast("Block", block).is_by_token() for block in self.blocks)

    def read_texts(self, x: Float[Tensor, "1 T D"], lengths: Sequence[int]) -> Float[Tensor, "1 T D"]:
        """The hidden states of texts that follow one another in a row, each read from its beginning, by itself."""
        positions = torch.cat([torch.arange(length, device=x.device) for length in lengths])[None]
        make = partial(causal_mask, device=x.device, bias=self.bias, documents=None, in_blocks=self.in_blocks)
        masks = [
            AttentionMask(texts=[(length, make(length, window=window)) for length in lengths])
            for window in self.windows
        ]
        return self._through(x, positions, masks, None)

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
            make(length, device, window=window, bias=self.bias, documents=documents)._replace(starts=starts)
            for window in self.windows
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
        if self.context is not None and cache.longest + length > self.context:
            cache = self._halved(cache)
        if self._turns(cache.longest + length) and not is_long:
            cache = self._turned(cache)
        shortest = self.window if len(self.windows) == 1 else None
        cache, columns, first = cache.grown(x, starts, shortest, keep_inputs=self.context is not None)
        positions = columns[None] - (cache.first[:1, None] if first is None else first)
        masks = [self._mask_read_on(cache, columns, first, window)._replace(starts=starts) for window in self.windows]
        return self._through(x, positions, masks, cache, is_long=is_long), cache

    def room_ahead(self, cache: Cache) -> int:
        """How many tokens `read_ahead` may read: 0 where a pass cannot give the bits of one token after another.

        The state must not drop tokens meanwhile, nor their angles turn.
        """
        if cache.rows != 1 or not cache.even:
            return 0
        room = MOST_AHEAD if self.context is None else self.context - cache.longest
        if self.turn is not None and cache.longest <= self.turn:
            room = min(room, self.turn - cache.longest)
        return min(max(room, 0), MOST_AHEAD)

    def read_ahead(self, x: Float[Tensor, "1 T D"], cache: Cache) -> tuple[Float[Tensor, "1 T width"], list[Cache]]:
        """Hidden states, and the state after each token, with the bits of as many calls; T at most `room_ahead`.

        All states share one store: see `Cache.before`.
        """
        shortest = self.window if len(self.windows) == 1 else None
        grown, columns, _ = cache.grown(x, None, shortest, keep_inputs=self.context is not None)
        states = [grown.before(int(column) + 1, shortest) for column in columns]
        masks = []
        for window in self.windows:
            steps = []
            for i, state in enumerate(states):
                mask = self._mask_read_on(state, columns[i : i + 1], None, window)
                steps.append(Step(state.begin - grown.begin, state.columns - grown.begin, mask))
            masks.append(AttentionMask(steps=steps))
        with one_by_one():
            hidden = self._through(x, columns[None] - grown.first[:1, None], masks, grown)
        return hidden, states

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
        if cache is None or not self._may_be_shared(x, masks, cache):
            return self._through_blocks(x, positions, masks, cache, is_long=is_long)

        def read(rows: slice) -> Tensor:
            own = [mask.share(rows) for mask in masks]
            places = positions if len(positions) == 1 else positions[rows]
            return self._through_blocks(x[rows], places, own, cache.share(rows), is_long=is_long)

        return torch.cat(in_shares(read, len(x), SHARE))

    def _may_be_shared(self, x: Tensor, masks: list[AttentionMask], cache: Cache) -> bool:
        """Whether a step of several rows may be computed in shares of them, each on its own thread."""
        if (
            x.shape[1] > 1
            or len(x) < 2 * SHARE
            or not self.is_small
            or x.device.type != "cpu"
            or torch.is_grad_enabled()
        ):
            return False
        if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or self.training or not cache.can_share:
            return False
        is_plain = all(mask.weights_out is None and mask.edit is None and mask.steps is None for mask in masks)
        return is_plain and not any(map(is_in_blocks, self.parameters()))

    def _through_blocks(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None, *, is_long: bool
    ) -> Tensor:
        x, masks, rotations = self._prepared(x, positions, masks, is_long=is_long)
        if self._may_be_read_packed(x):
            self.packed = packed_reader(cast("Sequence[Block]", self.blocks), self.norm, self.packed)
            turned = [None if i in self.unrotated else rotations[kind] for i, kind in enumerate(self.kinds)]
            reads = self.packed
            hidden = None if reads is None else reads(x, turned, masks, self.kinds, cache, self.cache_bits)
            if hidden is not None:
                return hidden
        dtype = x.dtype
        for layer in range(self.layers):
            x = self._block(x, layer, masks, rotations, cache)
        return (x if self.norm is None else self.norm(x)).to(dtype)

    def _may_be_read_packed(self, x: Tensor) -> bool:
        """Whether the reading of x may go through kernels, if the blocks are plain: see `packed.reading`."""
        is_plain = not torch.is_grad_enabled() and x.dtype == torch.float32 and x.device.type == "cpu"
        if not is_plain or torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or self.is_stateful:
            return False
        has_own = len(self.blocks) == self.layers and not self.float64_layers
        return has_own and self.bias is None and not self.is_bidirectional and x.numel() > 0

    def _layers(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], *, is_long: bool = False
    ) -> Iterator[Tensor]:
        """The hidden states after each block, the last ones normalised."""
        x, masks, rotations = self._prepared(x, positions, masks, is_long=is_long)
        dtype = x.dtype
        for layer in range(self.layers):
            x = self._block(x, layer, masks, rotations, None)
            yield (x if self.norm is None or layer + 1 < self.layers else self.norm(x)).to(dtype)

    def _block(
        self, x: Tensor, layer: int, masks: list[AttentionMask], rotations: list[Rotation | None], cache: Cache | None
    ) -> Tensor:
        """The hidden states after a block. masks, rotations: by `windows`."""
        kind, block = self.kinds[layer], self.blocks[self.block_of[layer]]
        x = block(x, masks[kind], None if layer in self.unrotated else rotations[kind], cache, layer)
        pause()
        return x

    def _prepared(
        self, x: Tensor, positions: Tensor, masks: list[AttentionMask], *, is_long: bool
    ) -> tuple[Tensor, list[AttentionMask], list[Rotation | None]]:
        """The inputs of the first block; masks and rotations: by `windows`."""
        if self.layer_inputs is not None:
            x, layer_inputs = self.layer_inputs(x)
            masks = [mask._replace(layer_inputs=layer_inputs) for mask in masks]
        if self.lends:
            lent: dict[int, tuple[Tensor, Tensor]] = {}
            masks = [mask._replace(lent=lent) for mask in masks]
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
        if self.distances is not None:
            distances = self.distances(x.shape[1])
            masks = [mask._replace(distances=distances) for mask in masks]
        like = x.double() if self.float64_layers and chooses_type(x) else x
        rotation = None if self.rotary is None else self._rotation(self.rotary, positions, like, is_long=is_long)
        rotations = [rotation] * len(masks)
        if self.window_rotary is not None and self.windows[-1] is not None:
            rotations[-1] = self.window_rotary(positions, like)
        return x, masks, rotations

    def _rotation(self, rotary: Rotary, positions: Tensor, x: Tensor, *, is_long: bool) -> Rotation:
        """The angle of each position; another one in rows longer than `turn`, whose earlier tokens were read again."""
        if self.long_rotary is None or self.turn is None:
            return cast("Rotation", rotary(positions, x))
        long = self.long_rotary(positions, x)
        if is_long:
            return cast("Rotation", long)
        is_later = (positions >= self.turn)[..., None, None]
        return Rotation(*(torch.where(is_later, *both) for both in zip(long, rotary(positions, x), strict=True)))

    def _turned(self, cache: Cache) -> Cache:
        """The state after rows of `turn` tokens, which grow longer now, are read again with the other angles."""
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


class LayerInputs(nn.Module):
    """What each block adds for a token: (norm(W x / root D) + e) / root 2, e being the token's vector for the block
    (Gemma 4, Google 2026).
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.width, self.each = config.width, config.layer_input_width
        self.projection = nn.Linear(config.width, config.layers * self.each, bias=False)
        self.norm = norm_of(config, self.each)

    def forward(self, x: Float[Tensor, "B T E"]) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B T layers P"]]:
        """The vectors of tokens, and what is added. x: both vectors of each token, one after the other."""
        x, own = x[..., : self.width], x[..., self.width :]
        shape = (*x.shape[:-1], -1, self.each)
        projected = self.norm((linear(x, self.projection).to(x.dtype) * self.width**-0.5).view(shape))
        return x, (projected + own.reshape(shape)) * 2**-0.5
