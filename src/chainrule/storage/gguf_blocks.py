"""Dequantises the blocks of GGUF files to float32. ggml's source defines their layouts.

A block has 32 or 256 weights. q is the integer stored for a weight, d and m are the block's scale and minimum,
and in the K types s and t are those of 32 or 16 weights within it, in units of d and m.

    Q4_0  d (q - 8)     Q5_0  d (q - 16)    Q8_0  d q      Q4_K, Q5_K  d s q - m t
    Q4_1  d q + m       Q5_1  d q + m       Q6_K  d s (q - 32)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.bfloat16 import BFLOAT16

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

    Blocks = UInt8[ndarray, "blocks bytes"]
    Weights = Float32[ndarray, "blocks weights"]


class BlockType(NamedTuple):
    """weights, bytes: how many in a block. decode: None for types that are not quantised, whose type is `dtype`."""

    name: str
    weights: int
    bytes: int
    decode: Callable[[Blocks], Weights] | None
    dtype: np.dtype[Any] = np.dtype("<f4")


def _half(blocks: Blocks, begin: int) -> Float32[ndarray, "blocks 1"]:
    """A float16 of each block."""
    return np.ascontiguousarray(blocks[:, begin : begin + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Blocks) -> UInt8[ndarray, "blocks 2*bytes"]:
    """The lower halves of bytes, then the upper ones."""
    return np.concatenate([packed & 0x0F, packed >> 4], axis=1)


def _fifth_bits(packed: Blocks) -> UInt8[ndarray, "blocks 32"]:
    """The fifth bits of 32 weights, packed into 4 bytes."""
    return np.unpackbits(packed, axis=1, bitorder="little") << 4


def _q4_0(blocks: Blocks) -> Weights:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: Blocks) -> Weights:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]).astype(np.float32) + _half(blocks, 2)


def _q5_0(blocks: Blocks) -> Weights:
    q = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (q.astype(np.float32) - 16)


def _q5_1(blocks: Blocks) -> Weights:
    q = _nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * q.astype(np.float32) + _half(blocks, 2)


def _q8_0(blocks: Blocks) -> Weights:
    return _half(blocks, 0) * blocks[:, 2:].view(np.int8).astype(np.float32)


def _six_bit_pairs(packed: Blocks) -> tuple[UInt8[ndarray, "blocks 8"], UInt8[ndarray, "blocks 8"]]:
    """Eight scales and eight minima of 6 bits each, from 12 bytes: the last four have their upper bits in the first."""
    first, second, low = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 0x3F, (low & 0x0F) | (first >> 6) << 4], axis=1)
    minima = np.concatenate([second & 0x3F, (low >> 4) | (second >> 6) << 4], axis=1)
    return scales, minima


def _by_scales_and_minima(blocks: Blocks, q: UInt8[ndarray, "blocks 256"]) -> Weights:
    scales, minima = _six_bit_pairs(blocks[:, 4:16])
    scale = (_half(blocks, 0) * scales.astype(np.float32))[:, :, None]  # (blocks, 8, 1)
    minimum = (_half(blocks, 2) * minima.astype(np.float32))[:, :, None]
    return (scale * q.reshape(-1, 8, 32).astype(np.float32) - minimum).reshape(-1, 256)


def _nibbles_by_64(packed: UInt8[ndarray, "blocks 128"]) -> UInt8[ndarray, "blocks 256"]:
    """32 bytes hold 64 weights: their lower halves the first 32."""
    return _nibbles(packed.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(blocks: Blocks) -> Weights:
    return _by_scales_and_minima(blocks, _nibbles_by_64(blocks[:, 16:]))


def _q5_k(blocks: Blocks) -> Weights:
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    fifth = ((blocks[:, None, 16:48] >> shifts) & 1) << 4  # (blocks, 8, 32): bit i of each byte is of sub-block i
    return _by_scales_and_minima(blocks, _nibbles_by_64(blocks[:, 48:]) | fifth.reshape(-1, 256))


def _q6_k(blocks: Blocks) -> Weights:
    low = blocks[:, :128].reshape(-1, 2, 64)  # of each half of the block
    low = np.concatenate([low & 0x0F, low >> 4], axis=2)  # (blocks, 2, 128)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3  # (blocks, 2, 4, 32)
    q = (low | high.reshape(-1, 2, 128) << 4).astype(np.float32) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8).astype(np.float32)
    return ((_half(blocks, 208) * scales)[:, :, None] * q.reshape(-1, 16, 16)).reshape(-1, 256)


BLOCK_TYPES: dict[int, BlockType] = {
    0: BlockType("F32", 1, 4, None, np.dtype("<f4")),
    1: BlockType("F16", 1, 2, None, np.dtype("<f2")),
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    30: BlockType("BF16", 1, 2, None, BFLOAT16),
}


def dequantise(kind: BlockType, data: UInt8[ndarray, " bytes"]) -> ndarray:
    """The weights, one after the other: float32 if they were quantised, else in their own type."""
    if kind.decode is None:
        return data.view(kind.dtype)
    return kind.decode(data.reshape(-1, kind.bytes)).reshape(-1)
