"""Compiled bit arrays: numbers of any width in 64-bit words, and ascending sequences in Elias-Fano code.

An ascending sequence of n + 1 numbers up to u is split in two (Elias 1974, Fano 1971): the lowest log2(u / n) bits of
the numbers are contiguous; the high parts form a bit string in which the i-th one is at (number >> width) + i. The
position of every 32nd one is stored as a sample.

Every position is clamped to the bounds of its array before it is read, so a damaged file gives wrong numbers at worst.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

SAMPLED = 32  # every 32nd one is sampled
SAMPLE_SHIFT = 5

_ONE, _FULL, _BYTE = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0xFF)
_LOW6, _EIGHT = np.uint64(63), np.uint64(8)
_SHIFT1, _SHIFT2, _SHIFT4, _SHIFT56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_SHIFT6, _SHIFT7, _SHIFT16, _SHIFT32, _SHIFT53 = (np.uint64(shift) for shift in (6, 7, 16, 32, 53))
_LOW3, _MOST_SHIFT = np.uint64(7), np.uint64(56)
# The position of the one in a byte that has `rank` ones below it, by rank and byte.
_POSITIONS = np.array(
    [([i for i in range(8) if byte >> i & 1] + [0] * 8)[rank] for rank in range(8) for byte in range(256)], np.uint8
)
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FIFTEENS, _ONES, _TOPS = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@kernel
def read_bits(bits: Array, at: int, width: int) -> int:
    """The number of `width` < 64 bits at bit `at`, which is clamped. bits: at least two words, the last one padding."""
    return read_inside(bits, min(max(at, 0), (bits.size - 2) * 64 + 63), width)


@kernel
def read_inside(bits: Array, at: int, width: int) -> int:
    """As `read_bits`, without clamping; `at` must be inside."""
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    both = (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)
    return np.int64(both & ((_ONE << np.uint64(width)) - _ONE))


@kernel
def write_bits(bits: Array, at: int, width: int, number: int) -> None:
    """Writes a number of `width` < 64 bits at bit `at`, where the bits must be zero; `at` is not checked."""
    word = at >> 6
    shift = np.uint64(at) & _LOW6
    bits[word] |= np.uint64(number) << shift
    bits[word + 1] |= (np.uint64(number) >> _ONE) >> (_LOW6 - shift)


@kernel
def ones_in(word: int) -> int:
    """The number of ones in a word."""
    word = word - ((word >> _SHIFT1) & _FIVES)
    word = (word & _THREES) + ((word >> _SHIFT2) & _THREES)
    return np.int64((((word + (word >> _SHIFT4)) & _FIFTEENS) * _ONES) >> _SHIFT56)


@kernel
def width_of(size: int) -> int:
    """The number of bits that distinguish `size` values."""
    last = np.uint64(max(size - 1, 0))
    last |= last >> _SHIFT1
    last |= last >> _SHIFT2
    last |= last >> _SHIFT4
    last |= last >> _EIGHT
    last |= last >> _SHIFT16
    return ones_in(last | (last >> _SHIFT32))


@kernel
def select_one(word: int, rank: int) -> int:
    """The position of the one that has `rank` ones below it; undefined if there are too few ones (Vigna 2008)."""
    sums = word - ((word >> _SHIFT1) & _FIVES)
    sums = (sums & _THREES) + ((sums >> _SHIFT2) & _THREES)
    sums = ((sums + (sums >> _SHIFT4)) & _FIFTEENS) * _ONES  # ones in each byte and all bytes below it
    passed = (
        (((np.uint64(rank) * _ONES) | _TOPS) - sums) & _TOPS
    ) >> _SHIFT7  # a one for each byte below that of the result
    shift = ((passed * _ONES) >> _SHIFT53) & _MOST_SHIFT
    left = np.uint64(rank) - (((sums << _EIGHT) >> shift) & _BYTE)
    return np.int64(shift) + _POSITIONS[((left & _LOW3) << _EIGHT) | ((word >> shift) & _BYTE)]


@kernel
def read_pair(bits: Array, high: int, stop: int, low: int, width: int, sample: int, i: int) -> tuple[int, int]:
    """The i-th number of an ascending sequence, and the next one.

    high .. stop: the words of the bit string of high parts. low: the first word of the low bits, `width` each. sample:
    the position of the last sampled one up to the i-th. Branches only where ones are far apart.
    """
    start, end = high * 64, stop * 64
    sample = min(start + sample, end - 1)
    rank = i & (SAMPLED - 1)
    word, next_word = read_word(bits, sample), read_word(bits, sample + 64)
    ones = ones_in(word)
    passed = ones <= rank
    position = sample + (64 if passed else 0)
    word = next_word if passed else word
    rank -= ones if passed else 0
    ones = ones_in(word)
    while ones <= rank and position + 64 < end:
        position += 64
        rank -= ones
        word = read_word(bits, position)
        ones = ones_in(word)
    position += select_one(word, rank)
    next_position = position + 1
    word = read_word(bits, next_position)
    while word == 0 and next_position + 64 < end:
        next_position += 64
        word = read_word(bits, next_position)
    next_position += ones_in((word & (~word + _ONE)) - _ONE)
    first, second = position - start - i, next_position - start - i - 1
    lowest = low * 64 + i * width
    return (first << width) | read_bits(bits, lowest, width), (second << width) | read_bits(bits, lowest + width, width)


@kernel
def read_word(bits: Array, at: int) -> int:
    """The 64 bits from bit `at` >= 0 on, as a word; `at` is clamped above."""
    at = min(at, (bits.size - 2) * 64 + 63)
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    return (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)


@kernel
def write_ascending(numbers: Array, bits: Array, high: int, low: int, width: int, samples: int, half: int) -> None:
    """Writes an ascending sequence where all bits are zero. half: which half of the sample words it uses, 0 or 1."""
    for i in range(numbers.size):
        position = (numbers[i] >> width) + i
        bits[high + (position >> 6)] |= _ONE << (np.uint64(position) & _LOW6)
        write_bits(bits, low * 64 + i * width, width, numbers[i] & ((1 << width) - 1))
        if i & (SAMPLED - 1) == 0:
            write_bits(bits, (samples + (i >> SAMPLE_SHIFT)) * 64 + 32 * half, 32, position)
