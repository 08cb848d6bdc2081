"""Compiled bits: numbers of any width in an array of 64-bit words, and ascending sequences in Elias-Fano's code.

An ascending sequence of n + 1 numbers up to u is cut in two (Elias 1974, Fano 1971): the lowest log2(u / n) bits of
each stand side by side, and the rest is a string of bits in which the i-th one stands at (number >> width) + i. Where
every 32nd one stands is noted as a sample.

Every position is brought into its array's bounds before it is read, so that a damaged file gives wrong numbers and no
more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel

Array = NDArray[Any]

SAMPLED = 32  # each so many ones are sampled
SAMPLE_SHIFT = 5

_ONE, _FULL, _BYTE = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0xFF)
_LOW6, _EIGHT = np.uint64(63), np.uint64(8)
_SHIFT1, _SHIFT2, _SHIFT4, _SHIFT56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)
_SHIFT6, _SHIFT7, _SHIFT16, _SHIFT32, _SHIFT53 = (np.uint64(shift) for shift in (6, 7, 16, 32, 53))
_LOW3, _MOST_SHIFT = np.uint64(7), np.uint64(56)
# Where the one stands in a byte that has `rank` ones below it, by rank and byte.
_PLACES = np.array(
    [([i for i in range(8) if byte >> i & 1] + [0] * 8)[rank] for rank in range(8) for byte in range(256)], np.uint8
)
_FIVES, _THREES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_FIFTEENS, _ONES, _TOPS = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


@kernel
def read_bits(bits: Array, at: int, width: int) -> int:
    """The number of `width` < 64 bits at bit `at`, wherever that is. bits: at least two words, the last one padding."""
    return read_inside(bits, min(max(at, 0), (bits.size - 2) * 64 + 63), width)


@kernel
def read_inside(bits: Array, at: int, width: int) -> int:
    """As `read_bits`, for a caller who knows that `at` is inside."""
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    both = (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)
    return np.int64(both & ((_ONE << np.uint64(width)) - _ONE))


@kernel
def write_bits(bits: Array, at: int, width: int, number: int) -> None:
    """Puts a number of `width` < 64 bits at bit `at`, where there are zeros; the caller knows that there is room."""
    word = at >> 6
    shift = np.uint64(at) & _LOW6
    bits[word] |= np.uint64(number) << shift
    bits[word + 1] |= (np.uint64(number) >> _ONE) >> (_LOW6 - shift)


@kernel
def ones_in(word: int) -> int:
    """How many ones a word has."""
    word = word - ((word >> _SHIFT1) & _FIVES)
    word = (word & _THREES) + ((word >> _SHIFT2) & _THREES)
    return np.int64((((word + (word >> _SHIFT4)) & _FIFTEENS) * _ONES) >> _SHIFT56)


@kernel
def width_of(size: int) -> int:
    """How many bits tell one of `size` things from the others."""
    last = np.uint64(max(size - 1, 0))
    last |= last >> _SHIFT1
    last |= last >> _SHIFT2
    last |= last >> _SHIFT4
    last |= last >> _EIGHT
    last |= last >> _SHIFT16
    return ones_in(last | (last >> _SHIFT32))


@kernel
def place_of_one(word: int, rank: int) -> int:
    """Where the one stands that has `rank` ones below it; anywhere where there are not so many (Vigna 2008)."""
    sums = word - ((word >> _SHIFT1) & _FIVES)
    sums = (sums & _THREES) + ((sums >> _SHIFT2) & _THREES)
    sums = ((sums + (sums >> _SHIFT4)) & _FIFTEENS) * _ONES  # of each byte and those below it
    passed = ((((np.uint64(rank) * _ONES) | _TOPS) - sums) & _TOPS) >> _SHIFT7  # a one for each byte below
    shift = ((passed * _ONES) >> _SHIFT53) & _MOST_SHIFT
    left = np.uint64(rank) - (((sums << _EIGHT) >> shift) & _BYTE)
    return np.int64(shift) + _PLACES[((left & _LOW3) << _EIGHT) | ((word >> shift) & _BYTE)]


@kernel
def neighbours(bits: Array, high: int, stop: int, low: int, width: int, sample: int, i: int) -> tuple[int, int]:
    """The i-th number of an ascending sequence, and the next.

    high .. stop: the words of its string of ones. low: the word from which on the lower bits stand, `width` each.
    sample: where the last sampled one up to the i-th stands. Without a branch, but for ones that are far apart.
    """
    start, end = high * 64, stop * 64
    sample = min(start + sample, end - 1)
    rank = i & (SAMPLED - 1)
    word, next_word = read_word(bits, sample), read_word(bits, sample + 64)
    ones = ones_in(word)
    passed = ones <= rank
    place = sample + (64 if passed else 0)
    word = next_word if passed else word
    rank -= ones if passed else 0
    ones = ones_in(word)
    while ones <= rank and place + 64 < end:
        place += 64
        rank -= ones
        word = read_word(bits, place)
        ones = ones_in(word)
    place += place_of_one(word, rank)
    next_place = place + 1
    word = read_word(bits, next_place)
    while word == 0 and next_place + 64 < end:
        next_place += 64
        word = read_word(bits, next_place)
    next_place += ones_in((word & (~word + _ONE)) - _ONE)
    first, second = place - start - i, next_place - start - i - 1
    lowest = low * 64 + i * width
    return (first << width) | read_bits(bits, lowest, width), (second << width) | read_bits(bits, lowest + width, width)


@kernel
def read_word(bits: Array, at: int) -> int:
    """The 64 bits from bit `at` on, as a word; `at` is no less than 0."""
    at = min(at, (bits.size - 2) * 64 + 63)
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    return (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)


@kernel
def write_ascending(numbers: Array, bits: Array, high: int, low: int, width: int, samples: int, half: int) -> None:
    """Writes an ascending sequence into zeros. half: which 32 bits of the sample words are its own, 0 or 1."""
    for i in range(numbers.size):
        place = (numbers[i] >> width) + i
        bits[high + (place >> 6)] |= _ONE << (np.uint64(place) & _LOW6)
        write_bits(bits, low * 64 + i * width, width, numbers[i] & ((1 << width) - 1))
        if i & (SAMPLED - 1) == 0:
            write_bits(bits, (samples + (i >> SAMPLE_SHIFT)) * 64 + 32 * half, 32, place)
