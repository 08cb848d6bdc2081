"""A Transformer in packed weights, read by kernels from the first block to the last, where its blocks are plain.

Plain blocks have RMSNorm or LayerNorm before each sub-layer, or RMSNorm after it, or both, sub-layers one after the
other or side by side, rotary positions or some that are added, and feed-forward layers with gates or without: LLaMA,
Mistral, Qwen 2 and 3, Gemma 1 to 3, SmolLM3, Phi-3, Granite, OLMo 1 to 3, GPT-2, GPT-NeoX, StarCoder 2, StableLM,
Command R. All others go through torch, with the same products. What stands between two products is one call of a kernel
or two, since a step of one token otherwise spends two thirds of its time in calls.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import chain, repeat
from operator import contains
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from chainrule.base.ahead import compile_ahead
from chainrule.base.jit import address_in_kernels, specialise
from chainrule.base.lanes import LANES
from chainrule.neural.layers.basic import FeedForward, NormFromOne, gelu, relu_squared
from chainrule.neural.layers.matrix_products import is_in_blocks, packed_width, scales_of
from chainrule.neural.packed.attention_kernels import attend, attend_on_threads
from chainrule.neural.packed.layouts import Matrix, lock_of_kernels, matrix_of, steps
from chainrule.neural.packed.reading_kernels import (
    EXACT_GELU,
    GELU,
    RELU,
    SILU,
    SQUARED_RELU,
    add_and_layer_norm,
    add_and_norm,
    read_layer,
    room_of_layer,
    store,
    store_in_eight_bits,
    widen_keys,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float, Float32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache

ACTIVATIONS = {F.silu: SILU, gelu: GELU, F.gelu: EXACT_GELU, F.relu: RELU, relu_squared: SQUARED_RELU}
_NO_ROWS = np.empty((0, 0), np.float32)
_MANY = 1 << 9  # scores, from which on attention runs on several threads
_WIDENED_FROM = 8  # queries of a row, from which on keys in eight bits are widened for all of them together


class AttentionParts(Protocol):
    """Attention, as kernels read it. gains: of queries and of keys, if they are normed and have any."""

    heads: int
    key_heads: int
    head_width: int
    query_key_value: torch.nn.Linear
    out: torch.nn.Linear
    normed: bool
    epsilon: float | None
    gains: torch.nn.ParameterList


class BlockParts(NamedTuple):
    """The parts of a block, as kernels read it, which know no others.

    norms, norms_after: before and after sub-layers. scale: the factor of what a sub-layer adds. factor, cap: of scores,
    beside their scale; None for none. joint: whether queries of all heads are normalised together, and keys. above_one:
    whether they are multiplied by 1 plus their gains.
    """

    attention: AttentionParts
    feed_forward: FeedForward
    norms: torch.nn.ModuleList
    parallel: bool
    norms_after: torch.nn.ModuleList | tuple[()] = ()
    scale: float = 1.0
    factor: float | None = None
    cap: float | None = None
    joint: bool = False
    above_one: bool = False

    def linears(self) -> tuple[torch.nn.Linear, ...]:
        """Return the layers with matrices."""
        attention, layer = self.attention, self.feed_forward
        return attention.query_key_value, attention.out, layer.up, layer.down


class _Weights(NamedTuple):
    """Those of a block. gains: of the norms before and after each sub-layer, (1, D) or (2, D), then those of queries
    and keys, (H+K, d), or in one row; without rows, there is none.
    """

    products: list[Matrix]  # of queries, keys and values, of what attention gives, up, down
    biases: tuple[Float32[ndarray, "1 rows"], ...]
    gains: tuple[Float32[ndarray, "rows D"], ...]


class PackedReader:
    """The blocks of an encoder, read by kernels."""

    def __init__(self, blocks: Sequence[BlockParts], norm: torch.nn.Module) -> None:
        """Prepare the blocks for the kernels. norm: the one after the last block."""
        modules = _modules(blocks, norm)
        self._places, self._beside = [part._parameters for part in modules], [part._modules for part in modules]
        self._tensors = [*chain.from_iterable(map(dict.values, self._places))]  # kept, so that no other has their ids
        self._ids, self._seen = [*map(id, self._tensors)], -1
        self._weights = [*map(_weights, blocks)]
        self._layers: dict[bool, list[tuple[tuple[ndarray, ...], ...]]] = {}  # by whether they are read on threads
        self._last, self._epsilon = _gain(norm), _epsilon(norm)
        first, attention = blocks[0], blocks[0].attention
        query_key_value, out, up, down = self._weights[0].products
        self._room = room_of_layer(out.rows, out.columns, query_key_value.rows, down.columns, up.rows)
        kind = ACTIVATIONS[first.feed_forward.activation]
        sizes = attention.heads, attention.key_heads, attention.head_width, down.columns, up.rows, kind
        self._sizes = (*sizes, int(first.joint), int(first.parallel))
        scale = (1.0 if first.factor is None else first.factor) / math.sqrt(attention.head_width)
        head_epsilon = torch.finfo(torch.float32).eps if attention.epsilon is None else attention.epsilon
        cap = 0.0 if first.cap is None else first.cap
        self._factors = self._epsilon, head_epsilon, scale, cap, float(first.scale)
        self._add_and_norm = add_and_layer_norm if isinstance(norm, torch.nn.LayerNorm) else add_and_norm

    def __call__(
        self,
        x: Float[Tensor, "B T D"],
        rotations: Sequence[Rotation | None],
        masks: Sequence[AttentionMask],
        kinds: Sequence[int],
        cache: Cache | None,
        cache_bits: int | None,
    ) -> Float[Tensor, "B T D"] | None:
        """Return the hidden states after the last norm; None where a mask is not one of ranges.

        rotations: of each layer. masks, kinds: one for each kind of layers, and which of them each layer has.
        cache_bits: of keys and values, 8; None for float32.
        """
        rows, length, width = x.shape
        begin = 0 if cache is None else cache.begin
        columns = length if cache is None else cache.columns
        ranges = [_ranges(mask, rows, length, columns - begin) for mask in masks]
        angles = _angles(rotations, rows, length)
        if None in ranges:
            return None
        count = rows * length
        # The residual stream. The kernel takes all arrays as contiguous: nothing checks it at each call.
        summed = x.reshape(count, width).clone(memory_format=torch.contiguous_format).numpy()
        added, room = np.zeros_like(summed), np.empty(count * self._room, np.float32)
        threads = steps.choose(count)
        keys = self._key_values(rows, columns, cache, cache_bits)
        is_widened = cache_bits is not None and length >= _WIDENED_FROM
        shape = (rows, self._sizes[1], columns - begin, 2 * self._sizes[2]) if is_widened else (0, 0, 0, 0)
        wide = np.empty(shape, np.float32)
        shift = 0 if is_widened else begin  # of the columns in what attention reads
        shifted = [tuple(part + shift for part in visible or ()) for visible in ranges]
        is_long = threads > 1 and count * self._sizes[0] * (columns - begin) > _MANY
        addresses = _addresses(cache_bits is not None, is_widened, is_long)
        read, sizes = _layer_reader(cache_bits is not None), (*self._sizes, columns - length, begin)
        lock, layers = lock_of_kernels(threads), zip(self._layers_on(threads), angles, keys, kinds, strict=True)
        steps.begin()
        for weights, angle, own, kind in layers:
            others = angle, *own, wide, shifted[kind], addresses, sizes, self._factors
            with lock:
                read(summed, added, room, *weights, *others)
        normed = np.empty_like(summed)
        self._add_and_norm(summed, added, self._last, self._epsilon, normed)
        steps.end()
        return torch.from_numpy(normed).view(rows, length, width)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Leave it out of copies of a network, whose weights are at other addresses."""
        return type(None), ()

    def _layers_on(self, threads: int) -> list[tuple[tuple[ndarray, ...], ...]]:
        """Return what the kernel reads of each layer, on one thread or on several."""
        known = self._layers.get(threads > 1)
        if known is None:
            known = [
                (tuple(matrix.table(threads) for matrix in weights.products), weights.biases, weights.gains)
                for weights in self._weights
            ]
            self._layers[threads > 1] = known
        return known

    def _key_values(
        self, rows: int, columns: int, cache: Cache | None, bits: int | None
    ) -> list[tuple[ndarray, ndarray]]:
        """Return, of each layer, where keys and values are written and read, and their scales."""
        heads, width = self._sizes[1:3]
        if cache is not None:
            arrays = [cache.array(layer, heads, width) for layer in range(len(self._weights))]
        else:
            kind = (2 * width, np.float32) if bits is None else (packed_width(2 * width), np.int8)
            arrays = [np.empty((rows, heads, columns, kind[0]), kind[1])] * len(self._weights)
        return [(part, part if bits is None else scales_of(part, 2 * width)) for part in arrays]

    def holds(self, *, is_step: bool) -> bool:
        """Return whether the blocks still have the weights with which this was made, and no adapters.

        is_step: it only goes on in texts that it has begun to read, so that what no module was given is taken as held.
        """
        if is_step and self._seen == _registrations[0]:
            return True
        ids = map(id, chain.from_iterable(map(dict.values, self._places)))
        holds = [*ids] == self._ids and not any(map(contains, self._beside, repeat("adapter")))
        self._seen = _registrations[0] if holds else -1
        return holds


_registrations = [0]  # of parameters and parts, in any module


def _count_registration(*_: object) -> None:
    _registrations[0] += 1


register_module_parameter_registration_hook(_count_registration)
register_module_module_registration_hook(_count_registration)


# Of the types that kernels get.
_ROWS, _NUMBERS, _PLACES = np.empty((2, 2), np.float32), np.empty(2, np.float32), np.empty(2, np.int64)
_HEADS, _WIDE = np.empty((2, 2, 2), np.float32), np.empty((2, 2, 2, 2), np.float32)
_KEYS = {True: (np.empty((2, 2, 2, 2), np.int8), _WIDE[..., ::2]), False: (_WIDE, _WIDE)}  # and scales, by eight bits


@cache
def _addresses(in_eight_bits: bool, is_widened: bool, on_threads: bool) -> tuple[int, int, int]:
    """Return those that `read_layer` needs: where keys are written, widened and read."""
    keys, writer = _KEYS[in_eight_bits], store_in_eight_bits if in_eight_bits else store
    seen = _KEYS[in_eight_bits and not is_widened]
    attended = (_HEADS, *seen, _PLACES, _PLACES, 1.0, 1.0, _ROWS)
    return (
        address_in_kernels(writer, _HEADS, *keys, 0),
        address_in_kernels(widen_keys, *keys, 0, _WIDE) if is_widened else 0,
        address_in_kernels(attend_on_threads if on_threads else attend, *attended),
    )


@cache
def _layer_reader(in_eight_bits: bool) -> Callable[..., None]:
    """Return `read_layer` for keys and values in eight bits, or in float32."""
    compile_ahead("packed")
    weights = (np.empty((1, 5), np.int64),) * 4, (_ROWS,) * 4, (_ROWS,) * 5
    others = (_ROWS, _ROWS), *_KEYS[in_eight_bits], _WIDE, (_PLACES, _PLACES), (0,) * 3, (0,) * 10, (1.0,) * 5
    return specialise(read_layer, _ROWS, _ROWS, _NUMBERS, *weights, *others)


def packed_reader(
    blocks: Iterable[BlockParts | None],
    norm: torch.nn.Module | None,
    known: PackedReader | None,
    *,
    is_step: bool = False,
) -> PackedReader | None:
    """Return a reader of the blocks; None where they are not plain, or not all packed. known: one that may still
    hold. is_step: as for `PackedReader.holds`.
    """
    if known is not None and known.holds(is_step=is_step):
        return known
    if norm is None:
        return None
    plain = []
    for block in blocks:
        if block is None or not _is_plain(block):
            return None
        plain.append(block)
    norms = [norm, *chain.from_iterable((*block.norms, *block.norms_after) for block in plain)]
    known_norms = torch.nn.RMSNorm | torch.nn.LayerNorm | NormFromOne
    if (
        not all(isinstance(part, known_norms) for part in norms)
        or len({(type(part), _epsilon(part)) for part in norms}) != 1
    ):
        return None
    return PackedReader(plain, norm) if len(set(map(_shape, plain))) == 1 else None


def _shape(block: BlockParts) -> tuple[object, ...]:
    """Return what all blocks of a reader have in common."""
    attention, layer = block.attention, block.feed_forward
    sizes = (
        attention.heads,
        attention.key_heads,
        attention.head_width,
        layer.up.out_features,
        layer.activation,
        block.scale,
    )
    return (*sizes, block.factor, block.cap)


def _modules(blocks: Sequence[BlockParts], norm: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the modules with the weights of which a reader has views or copies."""
    modules: list[torch.nn.Module] = [norm]
    for block in blocks:
        modules += [*block.linears(), block.attention.gains, *block.norms, *block.norms_after]
    return modules


def _weights(block: BlockParts) -> _Weights:
    linears, none = block.linears(), _NO_ROWS
    biases = (
        np.empty((1, 0), np.float32) if part.bias is None else part.bias.detach().float().numpy()[None]
        for part in linears
    )
    norms = [*map(_gain, block.norms), none, none][:2] + [*map(_gain, block.norms_after), none, none][:2]
    products = [matrix_of(part.weight.detach().numpy()) for part in linears]
    return _Weights(products, tuple(biases), (*norms, _head_gains(block) if block.attention.normed else none))


_KNOWN_OF_LAYER = frozenset(["up", "down", "gated", "activation"])


def _is_plain(block: BlockParts) -> bool:
    """Return whether kernels can read a block: its matrices are packed; of its norms, whether their places are
    known.
    """
    linears = block.linears()
    if any("adapter" in linear._modules or not is_in_blocks(linear.weight) for linear in linears):
        return False
    layer = block.feed_forward
    if not has_only(layer, _KNOWN_OF_LAYER) or layer.activation not in ACTIVATIONS:
        return False
    if block.norms_after and (block.parallel or isinstance(block.norms_after[0], torch.nn.LayerNorm)):
        return False
    if len(block.norms) == 1 and not block.parallel:
        return False
    sizes = [size for linear in linears for size in (linear.in_features, linear.out_features)]
    # So that no group of rows is filled up:
    return all(size % (2 * LANES) == 0 for size in (block.attention.head_width, *sizes))


def has_only(module: torch.nn.Module, known: frozenset[str]) -> bool:
    """Return whether everything else that a module has is off: None or False."""
    settings = {name: value for name, value in vars(module).items() if not name.startswith("_") and name != "training"}
    parts = {**settings, **module._parameters, **module._buffers, **module._modules}
    return all(name in known or value is None or value is False for name, value in parts.items())


def _gain(norm: torch.nn.Module) -> Float32[ndarray, "1 D"] | Float32[ndarray, "2 D"]:
    """Return the gain; of a LayerNorm, also what is added in the end."""
    if isinstance(norm, NormFromOne):
        return (1 + norm.weight.detach().float()).numpy()[None]
    assert isinstance(norm, torch.nn.RMSNorm | torch.nn.LayerNorm)
    [width] = norm.normalized_shape
    gain = torch.ones(width) if norm.weight is None else norm.weight.detach().float()
    if isinstance(norm, torch.nn.RMSNorm):
        return gain.numpy()[None]
    bias = torch.zeros(width) if norm.bias is None else norm.bias.detach().float()
    return torch.stack([gain, bias]).numpy()


def _head_gains(block: BlockParts) -> Float32[ndarray, "H+K d"] | Float32[ndarray, "1 numbers"]:
    """Return the gain of each query and key, or of all in one row."""
    attention = block.attention
    gains = [1 + gain if block.above_one else gain for gain in attention.gains] or [torch.ones(1)] * 2
    counts = attention.heads, attention.key_heads
    if block.joint:
        sizes = [count * attention.head_width for count in counts]
        return torch.cat([g.detach().float().expand(size) for g, size in zip(gains, sizes, strict=True)]).numpy()[None]
    both = zip(gains, counts, strict=True)
    return torch.cat([gain.detach().float().expand(count, attention.head_width) for gain, count in both]).numpy()


def _epsilon(norm: torch.nn.Module) -> float:
    epsilon = norm.epsilon if isinstance(norm, NormFromOne) else cast("torch.nn.RMSNorm | torch.nn.LayerNorm", norm).eps
    return torch.finfo(torch.float32).eps if epsilon is None else epsilon


def _angles(
    rotations: Sequence[Rotation | None], rows: int, length: int
) -> list[tuple[Float32[ndarray, "N half"], ...]]:
    """Return the cosines and sines of each layer, by position; without rows where nothing is rotated."""
    known: dict[int, tuple[ndarray, ...]] = {id(None): (_NO_ROWS, _NO_ROWS)}
    for rotation in rotations:
        if rotation is not None and id(rotation) not in known:
            by_position = (part.expand(rows, length, 1, -1).reshape(rows * length, -1) for part in rotation)
            known[id(rotation)] = tuple(part.contiguous().numpy() for part in by_position)
    return [known[id(rotation)] for rotation in rotations]


def _ranges(
    mask: AttentionMask, rows: int, length: int, keys: int
) -> tuple[Int64[ndarray, " N"], Int64[ndarray, " N"]] | None:
    """Return the first key that each query attends to, and the one after the last; None where it is not a range.

    keys: how many are visible; the last of them are the queries' own.
    """
    if mask.weights_out is not None or mask.edit is not None:
        return None
    ends = np.tile(np.arange(keys - length, keys) + 1, rows)
    if mask.texts is not None:
        own = [_ranges(part, 1, size, size) for size, part in mask.texts]
        starts = np.cumsum([0, *(size for size, _ in mask.texts)])
        if None in own:
            return None
        return np.concatenate([part[0] + start for part, start in zip(own, starts, strict=False) if part]), ends
    if mask.steps is not None:
        begins = []
        for step in mask.steps:
            own_range = _ranges(step.mask, 1, 1, step.end - step.begin)
            if own_range is None:
                return None
            begins.append(step.begin + int(own_range[0][0]))
        return np.array(begins), np.array([step.end for step in mask.steps])
    if mask.block_length is not None:  # of a window: of each query its block's place, then what it sees there
        block = mask.block_length
        assert mask.tensor is not None
        if mask.tensor.dtype != torch.bool or mask.tensor.shape[:2] != (1, 1):
            return None
        first = mask.tensor[0, 0].numpy().argmax(1)
        query = np.arange(length)
        return np.tile(np.maximum(query // block * block - block + first[query % block], 0), rows), ends
    if mask.tensor is None:
        if not mask.causal and length > 1:
            return None
        return np.zeros(rows * length, np.int64), ends
    if mask.tensor.dtype != torch.bool or mask.tensor.shape[1] != 1:
        return None
    visible = mask.tensor[:, 0].expand(rows, length, -1).reshape(rows * length, -1).numpy()  # (N, S)
    begins, counts = visible.argmax(1), visible.sum(1)
    last = visible.shape[1] - visible[:, ::-1].argmax(1)
    is_range = (counts == last - begins).all() and (last == ends).all() and (counts > 0).all()
    return (begins, last) if is_range else None
