"""The compiled expectation step of EM over a channel's rules: how often each rule was used in pairs of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.applications.channel.channel_kernels import (
    lengths_of,
    rewrite_forward,
    second_characters_fit,
    symbol_of,
)
from chainrule.base.jit import allocating_kernel

Array = NDArray[Any]


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
    """Adds each rule's expected uses, and the expected visits to characters x with y next, over all pairs.

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
