"""Other ways in which a Transformer reads, with the numbers of `transformer.py`, which is understood without them.

Several texts in a row; several tokens of a draft, each with the bits that it would have alone; steps of many rows, in
shares for threads; weights in blocks, by kernels from the first block to the last; keys and values in eight bits; and
the first blocks in float64. Legend: B batch, T time, D width, H heads, K heads of keys and values, d width of a head.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from chainrule.base.lanes import SCALED
from chainrule.errors import SettingError
from chainrule.neural.device import SHARE, in_shares
from chainrule.neural.layers.masks import AttentionMask, Step, causal_mask
from chainrule.neural.layers.matrix_products import divides_evenly, is_by_vector, is_in_blocks, one_by_one, widens
from chainrule.neural.layers.state import in_eight_bits, widened
from chainrule.neural.packed.reading import BlockParts, PackedReader, has_only, packed_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float

    from chainrule.neural.layers.attention import Additive, Location, Product
    from chainrule.neural.layers.basic import FeedForward
    from chainrule.neural.layers.masks import Bias
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache

_SHARED_WEIGHTS = 1 << 23  # of blocks: so many stay in the processor's cache, where each thread may read all of them
MOST_AHEAD = 32  # tokens of a row that are read in one pass with the bits of one after another


class TransformerReadings(nn.Module):
    """What a `Transformer` has beside its plain ways of reading."""

    is_bidirectional: bool
    layers: int
    context: int | None
    window: int | None
    windows: list[int | None]
    kinds: list[int]
    bias: Bias | None
    blocks: nn.ModuleList
    norm: nn.Module | None

    is_stateful = False  # whether a block carries a state from token to token
    takes_float64 = True  # if its blocks do
    in_blocks = True  # whether a short window may be masked block by block
    packed: PackedReader | None = None  # of weights in blocks
    cache_bits: int | None = None
    float64_layers = 0  # the first ones, of texts that are read from their beginning

    def set_cache_bits(self, bits: int | None) -> None:
        """Keep keys and values in 8 bits, as `state.in_eight_bits` does; None: in the type of hidden states.

        They are rounded where texts are read without a state, too: figures are the same. Raises SettingError.
        """
        attentions = [block.attention for block in map(self._block_of, range(self.layers)) if block.heads]
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
        """Compute the first blocks in float64 where texts are read without a state: what float32 rounds off there, all
        later blocks amplify.

        Raises SettingError.
        """
        if not 0 <= count <= self.layers:
            raise SettingError(f"float64_layers is {count}; expected 1 to {self.layers}, the layers of the network")
        blocks = [self._block_of(layer) for layer in range(self.layers)]
        if count and not (self.takes_float64 and all(block.takes_float64() for block in blocks[:count])):
            raise SettingError(
                "float64_layers is for blocks of the usual attention and feed-forward layer, with weights in float32 "
                "or bfloat16; where a file has them in eight bits or fewer, set exact, too, which widens them; else "
                "leave it out for this network"
            )
        self.float64_layers = count
        for layer, block in enumerate(blocks):
            block.dtype = None if not count else torch.float64 if layer < count else torch.float32

    def packs_texts(self) -> bool:
        """Return whether `read_texts` gives each text the bits that it has when it is read alone: where all that is
        computed of a token but attention depends on this token only, in an order that other tokens do not change.
        """
        if self.is_bidirectional or self.is_stateful or torch.is_grad_enabled():
            return False
        return all(cast("BlockReadings", block).is_by_token() for block in self.blocks)

    def read_texts(self, x: Float[Tensor, "1 T D"], lengths: Sequence[int]) -> Float[Tensor, "1 T D"]:
        """Return the hidden states of several texts that follow one another in a row, each read from its beginning, by
        itself.
        """
        positions = torch.cat([torch.arange(length, device=x.device) for length in lengths])[None]
        make = partial(causal_mask, device=x.device, bias=self.bias, documents=None, in_blocks=self.in_blocks)
        masks = [
            AttentionMask(texts=[(length, make(length, window=window)) for length in lengths])
            for window in self.windows
        ]
        return self._through(x, positions, masks, None)

    def room_ahead(self, cache: Cache) -> int:
        """Return how many tokens `read_ahead` may read: 0 where a pass cannot give the bits of one token after another.

        The state must not drop tokens meanwhile.
        """
        if cache.rows != 1 or not cache.even:
            return 0
        room = MOST_AHEAD if self.context is None else self.context - cache.longest
        return min(max(room, 0), MOST_AHEAD)

    def read_ahead(self, x: Float[Tensor, "1 T D"], cache: Cache) -> tuple[Float[Tensor, "1 T width"], list[Cache]]:
        """Return hidden states, and the state after each token, with the bits of as many calls; T at most `room_ahead`.

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

    def _through(self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None) -> Tensor:
        """Return the hidden states after the last block. masks: by `windows`."""
        if cache is None or not self._may_be_shared(x, masks, cache):
            return self._through_blocks(x, positions, masks, cache)

        def read(rows: slice) -> Tensor:
            own = [mask.share(rows) for mask in masks]
            places = positions if len(positions) == 1 else positions[rows]
            return self._through_blocks(x[rows], places, own, cache.share(rows))

        return torch.cat(in_shares(read, len(x), SHARE))

    def _may_be_shared(self, x: Tensor, masks: list[AttentionMask], cache: Cache) -> bool:
        """Return whether a step of several rows may be computed in shares of them, each on its own thread."""
        if x.shape[1] > 1 or len(x) < 2 * SHARE or x.device.type != "cpu" or torch.is_grad_enabled():
            return False
        if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or self.training or not cache.can_share:
            return False
        is_plain = all(mask.weights_out is None and mask.edit is None and mask.steps is None for mask in masks)
        return is_plain and self._is_small and not any(map(is_in_blocks, self.parameters()))

    @cached_property
    def _is_small(self) -> bool:
        return sum(weight.numel() for weight in self.blocks.parameters()) <= _SHARED_WEIGHTS

    def _read_packed(
        self, x: Tensor, masks: list[AttentionMask], rotations: list[Rotation | None], cache: Cache | None
    ) -> Tensor | None:
        """Return the hidden states after the last block, by kernels; None where they do not know the blocks, or a
        mask.
        """
        if torch.is_grad_enabled() or x.dtype != torch.float32 or x.device.type != "cpu" or not x.numel():
            return None
        if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu") or self.is_stateful:
            return None
        has_own = len(self.blocks) == self.layers and not self.float64_layers
        if not has_own or self.bias is not None or self.is_bidirectional:
            return None
        if not is_in_blocks(self._block_of(0).attention.out.weight):  # found out sooner than by all parts of a block
            return None
        parts = (cast("BlockReadings", block).for_kernels() for block in self.blocks)
        self.packed = packed_reader(parts, self.norm, self.packed, is_step=x.shape[1] == 1)
        if self.packed is None:
            return None
        turned = [self._rotation_of(layer, rotations) for layer in range(self.layers)]
        return self.packed(x, turned, masks, self.kinds, cache, self.cache_bits)

    def _like(self, x: Tensor) -> Tensor:
        """Return vectors of the type in which queries and keys are rotated."""
        return x.double() if self.float64_layers and _chooses_type(x) else x

    def _block_of(self, layer: int) -> BlockReadings:
        """Return the block of a layer."""
        return cast("BlockReadings", self.blocks[layer])

    def _rotation_of(self, layer: int, rotations: list[Rotation | None]) -> Rotation | None:
        """Return the rotation of a layer's queries and keys, of those by `windows`."""
        return rotations[self.kinds[layer]]

    @abstractmethod
    def _through_blocks(self, x: Tensor, positions: Tensor, masks: list[AttentionMask], cache: Cache | None) -> Tensor:
        """Return the hidden states after the last block. masks: by `windows`."""

    @abstractmethod
    def _mask_read_on(self, cache: Cache, columns: Tensor, first: Tensor | None, window: int | None) -> AttentionMask:
        """Return the mask of queries in the last columns, which were just added to the cache.

        first: as for `cached_mask`.
        """


class AttentionReadings(nn.Module):
    """What `Attention` has that other ways of reading ask for."""

    heads: int
    key_heads: int
    head_width: int
    query_key_value: nn.Linear
    out: nn.Linear
    normed: bool
    epsilon: float | None
    gains: nn.ParameterList
    score: Product | Additive | Location | None
    cache_bits: int | None = None  # of keys and values


class BlockReadings(nn.Module):
    """What a `Block` says of itself: which of the ways above it takes."""

    attention: AttentionReadings
    feed_forward: nn.Module | None
    norms: nn.ModuleList
    parallel: bool
    dtype: torch.dtype | None = None  # that it computes in, without a cache; None for that of what comes in

    @property
    def heads(self) -> int:
        """How many heads it has."""
        return self.attention.heads

    @property
    def scale(self) -> float:
        """The factor of what each sub-layer adds."""
        return 1.0

    def for_kernels(self) -> BlockParts | None:
        """Return the parts that kernels compute with; None if it has others."""
        if not (has_only(self, _KNOWN_OF_BLOCK) and has_only(self.attention, _KNOWN_OF_ATTENTION)):
            return None
        return BlockParts(self.attention, cast("FeedForward", self.feed_forward), self.norms, self.parallel)

    def is_by_token(self) -> bool:
        """Return whether all but attention gives a token the same bits whatever other tokens are read with it."""
        return all(
            is_by_vector(module.weight) and "adapter" not in module._modules and divides_evenly(module.out_features)
            for module in self.modules()
            if isinstance(module, nn.Linear)
        )

    def takes_float64(self) -> bool:
        """Return whether it also reads vectors in float64, its weights unchanged."""
        if self.attention.score is not None:
            return False
        return all(widens(module.weight) for module in self.modules() if isinstance(module, nn.Linear))


# What kernels compute with, or what changes nothing once a network is trained. All else must be off.
_KNOWN_OF_BLOCK = frozenset(["attention", "feed_forward", "parallel", "norms", "dropout", "dtype"])
_KNOWN_OF_ATTENTION = frozenset(
    [
        "heads",
        "key_heads",
        "head_width",
        "query_key_value",
        "out",
        "normed",
        "epsilon",
        "gains",
        "dropout",
        "cache_bits",
    ]
)


def in_type_of(
    block: BlockReadings, x: Tensor, mask: AttentionMask, rotation: Rotation | None, cache: Cache | None
) -> tuple[Tensor, AttentionMask, Rotation | None]:
    """Return what a block reads, in the type that it computes in."""
    if block.dtype is None or not _chooses_type(x):
        return x, mask, rotation
    dtype = block.dtype if cache is None else torch.float32
    return x.to(dtype), mask.in_type(dtype), rotation and rotation.in_type(dtype)


def _chooses_type(x: Tensor) -> bool:
    """Return whether blocks may choose the type in which they compute."""
    return not (torch.is_grad_enabled() or torch.is_autocast_enabled(x.device.type) or x.device.type == "mps")


def in_bits(
    bits: int | None, key: Float[Tensor, "B K T d"], value: Float[Tensor, "B K T d"]
) -> tuple[Float[Tensor, "B K T d"], Float[Tensor, "B K T d"]]:
    """Return keys and values as a cache in eight bits would give them, if bits are set."""
    if bits is None or torch.is_grad_enabled():
        return key, value
    packed = in_eight_bits(key, value)
    return widened(packed, packed, key.dtype)


def attend_apart(
    attend: Callable[[Tensor, Tensor, Tensor, AttentionMask], Tensor],
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B K S d"],
    value: Float[Tensor, "B K S d"],
    mask: AttentionMask,
) -> Float[Tensor, "B H T d"]:
    """Return attention of all queries, or of each text of a row, or of each query, alone, as the mask says."""
    if mask.texts is not None:
        cuts = [length for length, _ in mask.texts]
        queries, keys, values = (torch.split_with_sizes(part, cuts, 2) for part in (query, key, value))
        texts = zip(queries, keys, values, mask.texts, strict=True)
        return torch.cat([attend(q, k, v, own) for q, k, v, (_, own) in texts], 2)
    if mask.steps is None:
        return attend(query, key, value, mask)
    parts = []
    for i, (begin, end, own) in enumerate(mask.steps):
        columns = slice(begin, end)
        parts.append(attend(query[:, :, i : i + 1].clone(), key[:, :, columns], value[:, :, columns], own))
    return torch.cat(parts, 2)
