"""A Transformer in packed weights, read by kernels from the first block to the last, where its blocks are plain.

Plain blocks are LLaMA's: RMSNorm with gains before each sub-layer, rotary positions, silu gates, no biases. All others
go through torch, with the same products. What stands between two products is one call of a kernel, since a step of one
token otherwise spends two thirds of its time in calls.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812

from chainrule.base.jit import use_parallel_threads
from chainrule.base.lanes import LANES
from chainrule.neural.layers.basic import FeedForward
from chainrule.neural.layers.matrix_products import is_in_blocks
from chainrule.neural.packed.block_kernels import quantise
from chainrule.neural.packed.layouts import Multiplication, Vectors, kernel_lock, matrix_of, steps
from chainrule.neural.packed.reading_kernels import (
    add_and_norm,
    attend,
    attend_on_threads,
    gate_and_quantise,
    norm_and_quantise,
    rotate_and_store,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, Int64
    from numpy import ndarray
    from torch import Tensor

    from chainrule.neural.encoders.blocks import Block
    from chainrule.neural.layers.masks import AttentionMask
    from chainrule.neural.layers.positions import Rotation
    from chainrule.neural.layers.state import Cache

_MANY = 1 << 16  # scores, from which on attention runs on several threads


class _Weights(NamedTuple):
    """Those of a block. before, between: gains, (1, D)."""

    before: Float32[ndarray, "1 D"]
    query_key_value: Multiplication
    out: Multiplication
    between: Float32[ndarray, "1 D"]
    up: Multiplication
    down: Multiplication


class PackedReader:
    """The blocks of an encoder, read by kernels."""

    def __init__(self, blocks: Sequence[Block], norm: torch.nn.RMSNorm) -> None:
        """norm: the one after the last block."""
        self._places = _places(blocks, norm)
        self._tensors = [parameters["weight"] for parameters in self._places]
        self.layers = [
            _Weights(
                _gain(_gains(block)[0]),
                _multiplication(block.attention.query_key_value.weight),
                _multiplication(block.attention.out.weight),
                _gain(_gains(block)[1]),
                _multiplication(_fed(block).up.weight),
                _multiplication(_fed(block).down.weight),
            )
            for block in blocks
        ]
        self.last = _gain(norm.weight)
        self.epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        attention = blocks[0].attention
        self.heads, self.key_heads, self.width = attention.heads, attention.key_heads, attention.head_width
        self.scale = (1.0 if attention.factor is None else attention.factor) / math.sqrt(self.width)

    def __call__(
        self, x: Float[Tensor, "B T D"], rotation: Rotation, mask: AttentionMask, cache: Cache | None
    ) -> Float[Tensor, "B T D"] | None:
        """The hidden states after the last norm; None where a mask is not one of ranges."""
        rows, length, width = x.shape
        begin = 0 if cache is None else cache.begin
        columns = length if cache is None else cache.columns
        ranges = _ranges(mask, rows, length, columns - begin)
        if ranges is None:
            return None
        begins, ends = ranges
        if begin:
            begins, ends = begins + begin, ends + begin
        count = rows * length
        summed = x.reshape(count, width).clone().numpy()  # the residual stream
        cos, sin = (_by_position(part, rows, length) for part in rotation)
        threads = steps.begin(count)
        first = self.layers[0]
        normed, added = np.empty_like(summed), np.zeros((count, first.out.padded_rows), np.float32)
        attended = np.empty((count, self.heads * self.width), np.float32)
        gated = np.empty((count, first.down.columns), np.float32)
        of_heads = np.empty((count, first.query_key_value.padded_rows), np.float32)
        heads = of_heads.reshape(count, -1, self.width)
        hidden = np.empty((count, first.up.padded_rows), np.float32)
        narrow, middle, wide = (Vectors.empty(*part.shape) for part in (normed, attended, gated))
        store = None
        for layer, weights in enumerate(self.layers):
            norm_and_quantise(summed, added, weights.before, self.epsilon, normed, *narrow[1:])
            weights.query_key_value(narrow, threads, of_heads)
            if cache is not None:
                store = cache.buffer(layer, self.key_heads, self.width).numpy()
            elif store is None:
                store = np.empty((rows, self.key_heads, length, 2 * self.width), np.float32)
            rotate_and_store(heads, cos, sin, store, columns - length)
            if threads > 1 and count * self.heads * (columns - begin) > _MANY:
                with kernel_lock:
                    use_parallel_threads(threads)
                    attend_on_threads(heads, store, begins, ends, self.scale, attended)
            else:
                attend(heads, store, begins, ends, self.scale, attended)
            quantise(attended, *middle[1:])
            weights.out(middle, threads, added)
            norm_and_quantise(summed, added, weights.between, self.epsilon, normed, *narrow[1:])
            weights.up(narrow, threads, hidden)
            gate_and_quantise(hidden, gated, *wide[1:])
            weights.down(wide, threads, added)
        add_and_norm(summed, added, self.last, self.epsilon, normed)
        steps.end()
        return torch.from_numpy(normed).view(rows, length, width)

    def holds(self) -> bool:
        """Whether the blocks still have the weights with which this was made."""
        return all(map(_is_own, self._places, self._tensors))


def packed_reader(
    blocks: Sequence[Block], norm: torch.nn.Module | None, known: PackedReader | None
) -> PackedReader | None:
    """A reader of the blocks; None where they are not plain, or not all packed. known: one that may still hold."""
    if known is not None and known.holds():
        return known
    if not isinstance(norm, torch.nn.RMSNorm) or norm.weight is None or not all(map(_is_plain, blocks)):
        return None
    shapes = {(block.attention.heads, block.attention.key_heads, block.attention.head_width) for block in blocks}
    return PackedReader(blocks, norm) if len(shapes) == 1 else None


def _is_own(parameters: dict[str, torch.nn.Parameter | None], weight: Tensor | None) -> bool:
    return parameters["weight"] is weight


def _places(blocks: Sequence[Block], norm: torch.nn.RMSNorm) -> list[dict[str, torch.nn.Parameter | None]]:
    """Where the weights stand of which a reader has views."""
    modules: list[torch.nn.Module] = [norm]
    for block in blocks:
        attention, layer = block.attention, _fed(block)
        modules += [attention.query_key_value, attention.out, layer.up, layer.down, *block.norms]
    return [module._parameters for module in modules]


def _fed(block: Block) -> FeedForward:
    return cast("FeedForward", block.feed_forward)


def _gains(block: Block) -> list[Tensor]:
    return [cast("Tensor", norm.weight) for norm in block.norms]


def _multiplication(weight: Tensor) -> Multiplication:
    return Multiplication(matrix_of(weight.detach().numpy()))


def _is_plain(block: Block) -> bool:
    """Whether a block is one of LLaMA's, with packed matrices."""
    if block.recurrent or block.post or block.parallel or block.norms_after or len(block.norms) != 2:
        return False
    if block.layer_input is not None or block.block_scale is not None or block.scale != 1:
        return False
    attention, layer = block.attention, block.feed_forward
    if not isinstance(layer, FeedForward) or not layer.gated or layer.clamped or layer.activation is not F.silu:
        return False
    extras = (attention.taken_from, attention.cap, attention.sinks, attention.score)
    if any(extra is not None for extra in extras) or attention.lends:
        return False
    if attention.gated or attention.value_norm or attention.keys_as_values or attention.normed:
        return False
    linears = (attention.query_key_value, attention.out, layer.up, layer.down)
    if any("adapter" in linear._modules or not is_in_blocks(linear.weight) for linear in linears):
        return False
    if any(linear.bias is not None for linear in linears):
        return False
    norms = [norm for norm in block.norms if type(norm) is torch.nn.RMSNorm and norm.weight is not None]
    sizes = (attention.head_width, *(size for linear in linears for size in (linear.in_features, linear.out_features)))
    return len(norms) == 2 and all(size % (2 * LANES) == 0 for size in sizes)  # so no group of rows is filled up


def _gain(weight: Tensor) -> Float32[ndarray, "1 D"]:
    return weight.detach().float().numpy()[None]


def _by_position(part: Float[Tensor, "#B T 1 half"], rows: int, length: int) -> Float32[ndarray, "N half"]:
    return part.expand(rows, length, 1, -1).reshape(rows * length, -1).contiguous().numpy()


def _ranges(
    mask: AttentionMask, rows: int, length: int, keys: int
) -> tuple[Int64[ndarray, " N"], Int64[ndarray, " N"]] | None:
    """The first key that each query attends to, and the one after the last; None where it is not a range.

    keys: how many are visible; the last of them are the queries' own.
    """
    if mask.weights_out is not None or mask.edit is not None or mask.block_length is not None:
        return None
    ends = np.tile(np.arange(keys - length, keys) + 1, rows)
    if mask.texts is not None:
        if not all(own.causal for _, own in mask.texts):
            return None
        lengths = np.array([length for length, _ in mask.texts])
        return np.repeat(np.cumsum(lengths) - lengths, lengths), ends
    if mask.steps is not None:
        if any(step.mask.tensor is not None for step in mask.steps):
            return None
        return np.array([step.begin for step in mask.steps]), np.array([step.end for step in mask.steps])
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
