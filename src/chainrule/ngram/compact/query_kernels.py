"""Compiled queries over the compact trie of `table.py`, and the bit arrays that it consists of.

A bit array holds numbers of any width in 64-bit words, or an ascending sequence in Elias-Fano code. Such a sequence of
n + 1 numbers up to u is split in two (Elias 1974, Fano 1971): the lowest log2(u / n) bits of the numbers are
contiguous; the high parts form a bit string in which the i-th one is at (number >> width) + i. The position of every
32nd one is stored as a sample. Every position is clamped to the bounds of its array before it is read, and every number
from a file before it is used as an index, so a damaged file gives wrong numbers at worst.

A context is opened before it is searched: this locates its children, and gives their number and the width of a rank.
Opening requires the open suffix, so a block of tokens goes through the orders from the lowest up; each pass over the
block reads what the pass before has located, to overlap cache misses. Nodes are numbered as in the fast table; NO_NODE
where the model has not seen the words together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import NO_NODE
from chainrule.protocol import BEGIN, END

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
    """Return the number of `width` < 64 bits at bit `at`, which is clamped.

    bits: at least two words, the last one padding.
    """
    return read_inside(bits, min(max(at, 0), (bits.size - 2) * 64 + 63), width)


@kernel
def read_inside(bits: Array, at: int, width: int) -> int:
    """Read bits as `read_bits` does, without clamping; `at` must be inside."""
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    both = (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)
    return np.int64(both & ((_ONE << np.uint64(width)) - _ONE))


@kernel
def write_bits(bits: Array, at: int, width: int, number: int) -> None:
    """Write a number of `width` < 64 bits at bit `at`, where the bits must be zero; `at` is not checked."""
    word = at >> 6
    shift = np.uint64(at) & _LOW6
    bits[word] |= np.uint64(number) << shift
    bits[word + 1] |= (np.uint64(number) >> _ONE) >> (_LOW6 - shift)


@kernel
def ones_in(word: int) -> int:
    """Return the number of ones in a word."""
    word = word - ((word >> _SHIFT1) & _FIVES)
    word = (word & _THREES) + ((word >> _SHIFT2) & _THREES)
    return np.int64((((word + (word >> _SHIFT4)) & _FIFTEENS) * _ONES) >> _SHIFT56)


@kernel
def width_of(size: int) -> int:
    """Return the number of bits that distinguish `size` values."""
    last = np.uint64(max(size - 1, 0))
    last |= last >> _SHIFT1
    last |= last >> _SHIFT2
    last |= last >> _SHIFT4
    last |= last >> _EIGHT
    last |= last >> _SHIFT16
    return ones_in(last | (last >> _SHIFT32))


@kernel
def select_one(word: int, rank: int) -> int:
    """Return the position of the one that has `rank` ones below it; undefined if there are too few ones (Vigna
    2008).
    """
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
    """Return the i-th number of an ascending sequence, and the next one.

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
    """Return the 64 bits from bit `at` >= 0 on, as a word; `at` is clamped above."""
    at = min(at, (bits.size - 2) * 64 + 63)
    word, shift = np.uint64(at) >> _SHIFT6, np.uint64(at) & _LOW6
    return (bits[word] >> shift) | ((bits[word + _ONE] << (_LOW6 - shift)) << _ONE)


@kernel
def write_ascending(numbers: Array, bits: Array, high: int, low: int, width: int, samples: int, half: int) -> None:
    """Write an ascending sequence where all bits are zero. half: which half of the sample words it uses, 0 or 1."""
    for i in range(numbers.size):
        position = (numbers[i] >> width) + i
        bits[high + (position >> 6)] |= _ONE << (np.uint64(position) & _LOW6)
        write_bits(bits, low * 64 + i * width, width, numbers[i] & ((1 << width) - 1))
        if i & (SAMPLED - 1) == 0:
            write_bits(bits, (samples + (i >> SAMPLE_SHIFT)) * 64 + 32 * half, 32, position)


# The columns of a layout: the nodes of the contexts and their children, and the first words of their parts in `bits`.
# Of an Elias-Fano sequence, `_WIDTH` is the width of the low bits, which are at `_LOW`; the high parts are at `_HIGH`.
FIRST, CONTEXTS, CHILD, CHILDREN, RUN_BITS, SAMPLES, RUNS = 0, 1, 2, 3, 4, 5, 6
FIRST_WIDTH, FIRST_HIGH, FIRST_LOW, RUN_WIDTH, RUN_HIGH, RUN_LOW = 7, 8, 9, 10, 11, 12
FIELDS = 13

# The columns of an open context.
BEGINS, SIZE, POSITION, WIDTH, STORED = 0, 1, 2, 3, 4
OPEN = 5
NOT_STORED = -1  # the value of STORED if nothing is stored before the run of ranks

FEW = 4  # children; a context with more has a stored backoff
BACKOFF_BITS, SCALE_BITS = 24, 20
STORED_BITS = BACKOFF_BITS + SCALE_BITS
_BACKOFF_STEP, _LARGEST_BACKOFF = 2.0**-17, 64.0  # nats; 0 stands for -inf
_SCALE_STEP, _LARGEST_SCALE = 2.0**-18, 2.0

_BLOCK = 1 << 10  # tokens that go through one order before the next
_BEGIN_NODE = 1 + BEGIN
_LOW32 = np.uint64(0xFFFFFFFF)


@kernel
def pack_backoff_and_scale(log_backoff: float, log_scale: float) -> int:
    """Return a backoff and a scale, packed into STORED_BITS bits."""
    backoff = 0
    if log_backoff > -_LARGEST_BACKOFF:
        steps = np.rint((min(log_backoff, _LARGEST_BACKOFF) + _LARGEST_BACKOFF) / _BACKOFF_STEP)
        backoff = min(max(np.int64(steps), 1), (1 << BACKOFF_BITS) - 1)
    scale = np.int64(np.rint((log_scale + _LARGEST_SCALE) / _SCALE_STEP))
    return (min(max(scale, 0), (1 << SCALE_BITS) - 1) << BACKOFF_BITS) | backoff


@kernel
def backoff_in(number: int) -> float:
    """Return the log backoff in a packed number."""
    steps = number & ((1 << BACKOFF_BITS) - 1)
    return -np.inf if steps == 0 else steps * _BACKOFF_STEP - _LARGEST_BACKOFF


@kernel
def scale_in(number: int) -> float:
    """Return the log scale in a packed number."""
    return (number >> BACKOFF_BITS) * _SCALE_STEP - _LARGEST_SCALE


@kernel
def implied_backoff(seen: float, seen_below: float) -> float:
    """Return the log backoff of a context, whose children have the mass `seen` after it, and `seen_below` after its
    suffix.
    """
    return math.log(max(1.0 - seen, 0.0) / max(1.0 - seen_below, 1e-9))


@kernel
def open_contexts(
    bits: Array, location: Array, contexts: Array, chosen: Array, below: Array, opened: Array, scales: Array
) -> None:
    """Open the contexts at the `chosen` indices; all are of one order. location: the layout's row of that order.

    below: their open suffixes. opened: the result, a row for each context. scales: the log scales of their children's
    probabilities.
    """
    first_high, first_low, first_width = location[FIRST_HIGH], location[FIRST_LOW], location[FIRST_WIDTH]
    run_high, run_low, run_width = location[RUN_HIGH], location[RUN_LOW], location[RUN_WIDTH]
    for i in chosen:  # the positions of the last sampled ones
        context = min(max(contexts[i] - location[FIRST], 0), location[CONTEXTS] - 1)
        samples = bits[location[SAMPLES] + (context >> SAMPLE_SHIFT)]
        opened[i, POSITION] = np.int64(samples & _LOW32)
        opened[i, WIDTH] = np.int64(samples >> _SHIFT32)
        opened[i, BEGINS] = context
    for i in chosen:  # brings the memory into the cache
        context = opened[i, BEGINS]
        touched = bits[min(first_high + (opened[i, POSITION] >> 6), first_low)]
        touched ^= bits[min(run_high + (opened[i, WIDTH] >> 6), run_low)]
        touched ^= bits[first_low + ((context * first_width) >> 6)] ^ bits[run_low + ((context * run_width) >> 6)]
        opened[i, STORED] = np.int64(touched)
    for i in chosen:
        context = opened[i, BEGINS]
        begin, end = read_pair(bits, first_high, first_low, first_low, first_width, opened[i, POSITION], context)
        run, run_end = read_pair(bits, run_high, run_low, run_low, run_width, opened[i, WIDTH], context)
        begin = min(max(begin, 0), location[CHILDREN])
        end = min(max(end, begin), location[CHILDREN])
        run = min(max(run, 0), location[RUN_BITS])
        run_end = min(max(run_end, run), location[RUN_BITS])
        width = width_of(below[i, SIZE])
        opened[i, BEGINS] = location[CHILD] + begin
        needed = (end - begin) * width
        opened[i, SIZE] = end - begin if needed <= run_end - run else 0  # the run must be inside its bounds
        opened[i, WIDTH] = width
        opened[i, POSITION] = location[RUNS] * 64 + run
        opened[i, STORED] = 1 if needed + STORED_BITS <= run_end - run else 0
    for i in chosen:
        number = read_bits(bits, opened[i, POSITION], STORED_BITS)
        is_stored = opened[i, STORED]
        opened[i, POSITION] += STORED_BITS * is_stored
        opened[i, STORED] = number if is_stored else NOT_STORED
        scales[i] = scale_in(number) if is_stored else 0.0


@kernel
def find_children(bits: Array, opened: Array, chosen: Array, below: Array, nodes_below: Array, nodes: Array) -> None:
    """Set nodes[i] to the child of open context i whose suffix is nodes_below[i], or NO_NODE; NO_NODE if i is not
    chosen.
    """
    nodes[:] = NO_NODE
    for i in chosen:
        rank = nodes_below[i] - below[i, BEGINS]
        position, width, left = opened[i, POSITION], opened[i, WIDTH], opened[i, SIZE]
        is_child = left > 0 and nodes_below[i] != NO_NODE
        index = 0
        while left > 1:
            half = left >> 1
            index += half * (read_inside(bits, position + (index + half) * width, width) <= rank)
            left -= half
        is_child &= read_inside(bits, position + index * width, width) == rank
        nodes[i] = opened[i, BEGINS] + index if is_child else NO_NODE


@kernel
def known_contexts(location: Array, contexts: Array, chosen: Array) -> int:
    """Write the indices of contexts that are nodes to `chosen`; return their number."""
    count = 0
    for i in range(contexts.size):
        chosen[count] = i
        count += np.int64(0 <= contexts[i] - location[FIRST] < location[CONTEXTS])
    return count


@kernel
def backoff_of(
    unigrams: Array, probs: Array, codes: Array, bits: Array, order: int, opened: Array, below: Array, scale: float
) -> float:
    """Return the log backoff of an open context with children of `order`.

    below: its open suffix. scale: that of `below`.
    """
    if opened[STORED] != NOT_STORED:
        return backoff_in(opened[STORED])
    if opened[SIZE] == 0:
        return 0.0
    seen = seen_below = 0.0
    last = codes.size - 1
    for k in range(min(opened[SIZE], FEW)):
        rank = read_bits(bits, opened[POSITION] + k * opened[WIDTH], opened[WIDTH])
        seen += probs[order - 2, codes[min(opened[BEGINS] + k - 1 - unigrams.size, last)]]
        if order == 2:
            seen_below += math.exp(unigrams[min(rank, unigrams.size - 1)])
        else:
            seen_below += probs[order - 3, codes[min(below[BEGINS] + rank - 1 - unigrams.size, last)]]
    return implied_backoff(seen, seen_below * math.exp(scale))


@allocating_kernel
def score_stream(
    unigrams: Array,
    values: Array,
    probs: Array,
    codes: Array,
    bits: Array,
    layout: Array,
    token: int,
    stream: Array,
    start: int,
    stop: int,
    scores: Array,
    lengths: Array,
) -> None:
    """Set scores[i] to log P(token | the tokens of its document before stream[i]) for i in start .. stop; of stream[i]
    itself where token is -1.

    lengths[i]: of the n-gram that matched; `lengths` may be empty. A document begins at `start`. Tokens must be below
    the vocabulary size.
    """
    order = layout.shape[0] + 1
    words = 1 + unigrams.size  # the number of nodes without codes
    last = codes.size - 1
    block = max(min(_BLOCK, stop - start), 1)
    # The n-grams that end at each token, column 0 being the token before the block; and those to be scored.
    nodes, scored = np.empty((order + 1, block + 1), np.int64), np.empty((order + 1, block), np.int64)
    contexts, indices = np.empty(block, np.int64), np.empty(block, np.int64)
    touched = np.empty(block, np.uint8)
    opened, scales = np.empty((order + 1, block, OPEN), np.int64), np.zeros((order + 1, block))
    opened[1, :, BEGINS], opened[1, :, SIZE] = 1, unigrams.size
    nodes[1, 0] = 1 + END
    for first in range(start, stop, block):
        count = min(block, stop - first)
        for i in range(count):
            nodes[1, i + 1] = 1 + stream[first + i]
            scored[1, i] = nodes[1, i + 1] if token < 0 else 1 + token
            scores[first + i] = unigrams[scored[1, i] - 1]
            if lengths.size > 0:
                lengths[first + i] = 1
        for n in range(2, order + 1):
            for i in range(count):
                after_end = _BEGIN_NODE if n == 2 else NO_NODE
                contexts[i] = after_end if nodes[1, i] == 1 + END else nodes[n - 1, i]
            here, below = opened[n, :count], opened[n - 1, :count]
            chosen = indices[: known_contexts(layout[n - 2], contexts[:count], indices)]
            open_contexts(bits, layout[n - 2], contexts, chosen, below, here, scales[n])
            if token < 0 or n < order:  # n-grams of the highest order are no contexts
                find_children(bits, here, chosen, below, nodes[n - 1, 1 : 1 + count], nodes[n, 1 : 1 + count])
            if token < 0:
                for i in range(count):
                    scored[n, i] = nodes[n, 1 + i]
            else:
                find_children(bits, here, chosen, below, scored[n - 1, :count], scored[n, :count])
            for i in chosen:  # brings the memory into the cache
                node = scored[n, i] if scored[n, i] != NO_NODE else here[i, BEGINS]
                touched[i] = codes[min(node - words, last)] if last >= 0 else 0
            for i in chosen:
                if scored[n, i] != NO_NODE:
                    scores[first + i] = values[n - 2, touched[i]] + scales[n, i]
                    if lengths.size > 0:
                        lengths[first + i] = n
                else:
                    scores[first + i] += backoff_of(
                        unigrams, probs, codes, bits, n, here[i], below[i], scales[n - 1, i]
                    )
        for n in range(1, order + 1):
            nodes[n, 0] = nodes[n, count]


@allocating_kernel
def open_rows(bits: Array, layout: Array, vocabulary_size: int, state: Array, opened: Array, scales: Array) -> None:
    """Open all contexts of a state; opened[n, row] has children of order n, or none if there is no such context."""
    indices = np.empty(state.shape[0], np.int64)
    opened[:], scales[:] = 0, 0
    opened[:, :, STORED] = NOT_STORED
    opened[1, :, BEGINS], opened[1, :, SIZE] = 1, vocabulary_size
    for n in range(2, state.shape[1] + 2):
        contexts = state[:, n - 2].copy()
        chosen = indices[: known_contexts(layout[n - 2], contexts, indices)]
        open_contexts(bits, layout[n - 2], contexts, chosen, opened[n - 1], opened[n], scales[n])


@allocating_kernel
def advance(bits: Array, layout: Array, vocabulary_size: int, state: Array, tokens: Array) -> Array:
    """Return the state after one more token in each row. Tokens must be below the vocabulary size."""
    rows, longest = state.shape
    new = np.full(state.shape, NO_NODE, np.int64)
    if longest == 0:
        return new
    opened, scales = np.empty((longest + 2, rows, OPEN), np.int64), np.empty((longest + 2, rows))
    open_rows(bits, layout, vocabulary_size, state, opened, scales)
    nodes, longer, all_rows = np.empty(rows, np.int64), np.empty(rows, np.int64), np.arange(rows)
    for row in range(rows):
        nodes[row] = 1 + tokens[row]
    for n in range(1, longest + 1):
        for row in range(rows):
            new[row, n - 1] = nodes[row] if tokens[row] != END else _BEGIN_NODE if n == 1 else NO_NODE
        if n < longest:
            find_children(bits, opened[n + 1], all_rows, opened[n], nodes, longer)
            for row in range(rows):
                nodes[row] = longer[row]
    return new


@kernel
def spell_out(
    unigrams: Array,
    values: Array,
    probs: Array,
    codes: Array,
    bits: Array,
    opened: Array,
    scales: Array,
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
) -> None:
    """Write the open contexts as a small fast trie, whose nodes are the contexts, row by row, from 0 on.

    begin[0]: the first child of node 0. The arrays must have room for all children.
    """
    order = opened.shape[0] - 1
    last = codes.size - 1
    context = 0
    for row in range(opened.shape[1]):
        for n in range(2, order + 1):
            here, below = opened[n, row], opened[n - 1, row]
            log_backoffs[context] = backoff_of(unigrams, probs, codes, bits, n, here, below, scales[n - 1, row])
            at = begin[context]
            for k in range(here[SIZE]):
                rank = read_bits(bits, here[POSITION] + k * here[WIDTH], here[WIDTH])
                if n == 2:
                    words[at + k] = rank
                else:
                    words[at + k] = words[begin[context - 1] + min(rank, max(below[SIZE] - 1, 0))]
                code = codes[min(here[BEGINS] + k - 1 - unigrams.size, last)]
                log_probs[at + k] = values[n - 2, code] + scales[n, row]
            begin[context + 1] = at + here[SIZE]
            context += 1
