"""The compiled query for one and the same token at every place of a stream; see `query_kernels.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import allocating_kernel
from chainrule.ngram.query_kernels import NO_NODE, child
from chainrule.protocol import BEGIN, END

Array = NDArray[Any]

_BLOCK = 1024  # as in `score_stream`, of which this is the twin
_BEGIN_NODE = 1 + BEGIN


@allocating_kernel
def score_token(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    order: int,
    token: int,
    stream: Array,
    start: int,
    stop: int,
    scores: Array,
) -> None:
    """scores[i] = log P(token | the tokens of its document before stream[i]) for i in start .. stop.

    A document begins at `start`. Every token is below the vocabulary's size.
    """
    inner = log_backoffs.size
    nodes = np.empty((order + 1, _BLOCK + 1), np.int64)  # n-grams by order that end before each place of the block
    nodes[1, 0] = 1 + END
    for first in range(start, stop, _BLOCK):
        size = min(_BLOCK, stop - first)
        for i in range(size):
            nodes[1, i + 1] = 1 + stream[first + i]
            scores[first + i] = log_probs[1 + token]
        for n in range(2, order + 1):
            for i in range(size):
                context = nodes[n - 1, i]
                if nodes[1, i] == 1 + END:
                    context = _BEGIN_NODE if n == 2 else NO_NODE
                node = NO_NODE
                if 0 <= context < inner:
                    found = child(words, begin, context, token)
                    if found >= 0:
                        scores[first + i] = log_probs[found]
                    else:
                        scores[first + i] += log_backoffs[context]
                    if n < order:  # the highest n-grams are no contexts
                        node = child(words, begin, context, stream[first + i])
                nodes[n, i + 1] = node
        for n in range(1, order + 1):
            nodes[n, 0] = nodes[n, size]
