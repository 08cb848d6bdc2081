"""The compiled channel: P(observed text), the search for words that may have been meant, and EM's expectation step.

The expectation step counts how often each rule was used in pairs of texts. sides[r, 0] is what rule r replaces,
sides[r, 1] what it puts there, as code points padded with 0. Every code is compared with a table's size before it
becomes an index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel

Array = NDArray[Any]

SIDE = 2  # the most characters on either side of a rule
NO_WORD = -1


@kernel
def symbol_of(symbols: Array, code: int) -> int:
    """Return the symbol of a code point: each code point in a rule has one, and all others share 0."""
    return symbols[code] if code < symbols.size else 0


@kernel
def rewrite_forward(
    source: Array,
    seen: Array,
    symbols: Array,
    copied: Array,
    begin: Array,
    sides: Array,
    probs: Array,
    forward: Array,
) -> None:
    """Set forward[s, o] to the probability that the source's first s characters became the first o observed ones.

    symbols, copied, begin, sides, probs: see `RulesBySource`. forward: zeros, (longest source + 1, longest text + 1).
    """
    forward[0, 0] = 1.0
    symbol_count = copied.shape[0]
    for s in range(source.size):
        symbol = symbol_of(symbols, source[s])
        following = symbol_of(symbols, source[s + 1]) if s + 1 < source.size else 0
        for o in range(seen.size + 1):
            so_far = forward[s, o]
            if so_far == 0:
                continue
            if o < seen.size and seen[o] == source[s]:
                forward[s + 1, o + 1] += so_far * copied[symbol, following]
            for kind in range(2):  # deletions; rules that put the observed character
                first = 0 if kind == 0 or o == seen.size else symbol_of(symbols, seen[o])
                if symbol == 0 or (kind == 1 and first == 0):
                    continue
                bucket = symbol * symbol_count + first
                for rule in range(begin[bucket], begin[bucket + 1]):
                    step, put = lengths_of(sides, rule)
                    if second_characters_fit(sides, rule, source, s, seen, o):
                        forward[s + step, o + put] += so_far * probs[rule]


@kernel
def lengths_of(sides: Array, rule: int) -> tuple[int, int]:
    """Return the numbers of characters that a rule rewrites, and that it puts there."""
    return 1 + (sides[rule, 0, 1] != 0), (sides[rule, 1, 0] != 0) + (sides[rule, 1, 1] != 0)


@kernel
def second_characters_fit(sides: Array, rule: int, source: Array, s: int, seen: Array, o: int) -> bool:
    """Return whether a rule whose first characters stand at source[s] and seen[o] applies there."""
    step, put = lengths_of(sides, rule)
    if s + step > source.size or o + put > seen.size:
        return False
    return (step < 2 or source[s + 1] == sides[rule, 0, 1]) and (put < 2 or seen[o + 1] == sides[rule, 1, 1])


@allocating_kernel
def log_probs(
    observed: Array,
    observed_offsets: Array,
    sources: Array,
    source_offsets: Array,
    symbols: Array,
    copied: Array,
    begin: Array,
    sides: Array,
    probs: Array,
    results: Array,
) -> None:
    """Set results[i] to log P(observed text i | source text i), by the forward algorithm over both texts'
    characters.
    """
    height, width = longest(source_offsets) + 1, longest(observed_offsets) + 1
    scratch = np.empty((height, width))
    for i in range(results.size):
        source = sources[source_offsets[i] : source_offsets[i + 1]]
        seen = observed[observed_offsets[i] : observed_offsets[i + 1]]
        forward = scratch[: source.size + 1, : seen.size + 1]
        forward[:] = 0.0
        rewrite_forward(source, seen, symbols, copied, begin, sides, probs, forward)
        results[i] = np.log(forward[source.size, seen.size])


@kernel
def longest(offsets: Array) -> int:
    """Return the length of the longest text."""
    length = 0
    for i in range(offsets.size - 1):
        length = max(length, offsets[i + 1] - offsets[i])
    return length


@kernel
def child_of(characters: Array, children: Array, node: int, code: int) -> int:
    """Return the child of `node` for a character, or NO_WORD."""
    low, end = children[node], children[node + 1]
    high = end
    while low < high:
        middle = (low + high) >> 1
        if characters[middle] < code:
            low = middle + 1
        else:
            high = middle
    return low if low < end and characters[low] == code else NO_WORD


@allocating_kernel
def meant_words(
    observed: Array,
    offsets: Array,
    most_errors: Array,
    begin: Array,
    sides: Array,
    characters: Array,
    children: Array,
    words: Array,
    matches: Array,
    counts: Array,
) -> None:
    """Find matches[i, :counts[i]], the words that at most most_errors[i] rules turn into the observed text i.

    Walks the trie along the text and undoes rules: those that put the observed character, and deletions (rules by what
    is observed: those of code c are begin[c] .. begin[c + 1]). A word may occur several times; matches without room
    are dropped.
    """
    nodes, positions, errors = np.empty(1 << 14, np.int64), np.empty(1 << 14, np.int64), np.empty(1 << 14, np.int64)
    for i in range(counts.size):
        seen = observed[offsets[i] : offsets[i + 1]]
        counts[i] = 0
        nodes[0], positions[0], errors[0] = 0, 0, 0
        height = 1
        while height > 0:
            height -= 1
            node, position, count = nodes[height], positions[height], errors[height]
            if position == seen.size and words[node] != NO_WORD and counts[i] < matches.shape[1]:
                matches[i, counts[i]] = words[node]
                counts[i] += 1
            for kind in range(2 if count < most_errors[i] else 0):  # deletions; rules that put the observed character
                code = 0 if kind == 0 or position == seen.size else seen[position]
                if (kind == 1 and code == 0) or code >= begin.size - 1:
                    continue
                for rule in range(begin[code], begin[code + 1]):
                    put = (sides[rule, 1, 0] != 0) + (sides[rule, 1, 1] != 0)
                    if position + put > seen.size or (put == 2 and seen[position + 1] != sides[rule, 1, 1]):
                        continue
                    child = child_of(characters, children, node, sides[rule, 0, 0])
                    if child != NO_WORD and sides[rule, 0, 1] != 0:
                        child = child_of(characters, children, child, sides[rule, 0, 1])
                    if child != NO_WORD and height < nodes.size:
                        nodes[height], positions[height], errors[height] = child, position + put, count + 1
                        height += 1
            if position < seen.size:
                child = child_of(characters, children, node, seen[position])
                if child != NO_WORD and height < nodes.size:
                    nodes[height], positions[height], errors[height] = child, position + 1, count
                    height += 1


@allocating_kernel
def expect(
    observed: Array,
    observed_offsets: Array,
    sources: Array,
    source_offsets: Array,
    weights: Array,
    symbols: Array,
    copied: Array,
    begin: Array,
    sides: Array,
    probs: Array,
    uses: Array,
    visits: Array,
) -> float:
    """Add each rule's expected uses, and the expected visits to characters x with y next, over all pairs.

    The forward-backward algorithm over both texts' characters. weights: of the pairs. visits[x, y]: by symbols; 0 is
    the end of the text, and all characters in no rule. Pairs that the rules cannot explain add nothing. Returns the
    weighted sum of log P(observed | source) of the others, in nats.
    """
    total = 0.0
    symbol_count = copied.shape[0]
    for i in range(weights.size):
        source = sources[source_offsets[i] : source_offsets[i + 1]]
        seen = observed[observed_offsets[i] : observed_offsets[i + 1]]
        forward = np.zeros((source.size + 1, seen.size + 1))
        backward = np.zeros((source.size + 1, seen.size + 1))
        rewrite_forward(source, seen, symbols, copied, begin, sides, probs, forward)
        prob = forward[source.size, seen.size]
        if prob <= 0:
            continue
        total += weights[i] * np.log(prob)
        backward[source.size, seen.size] = 1.0
        for s in range(source.size - 1, -1, -1):
            symbol = symbol_of(symbols, source[s])
            following = symbol_of(symbols, source[s + 1]) if s + 1 < source.size else 0
            visited = 0.0
            for o in range(seen.size, -1, -1):
                if o < seen.size and seen[o] == source[s]:
                    backward[s, o] += copied[symbol, following] * backward[s + 1, o + 1]
                for kind in range(2):
                    first = 0 if kind == 0 or o == seen.size else symbol_of(symbols, seen[o])
                    if symbol == 0 or (kind == 1 and first == 0):
                        continue
                    bucket = symbol * symbol_count + first
                    for rule in range(begin[bucket], begin[bucket + 1]):
                        step, put = lengths_of(sides, rule)
                        if second_characters_fit(sides, rule, source, s, seen, o):
                            way = probs[rule] * backward[s + step, o + put]
                            backward[s, o] += way
                            uses[rule] += weights[i] * forward[s, o] * way / prob
                visited += forward[s, o] * backward[s, o]
            visits[symbol, following] += weights[i] * visited / prob
    return total
