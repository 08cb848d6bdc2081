"""The compiled queries over the trie of `table.py`.

Every number that comes from a file is compared with its bound before it is an index. A context is a row of nodes, one
for each length 1 .. N-1, of the last words; NO_NODE where the model has not seen them together. `<s>` begins a document
and `</s>` ends it, so the context after </s> is <s> alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.jit import kernel
from chainrule.protocol import BEGIN, END

Array = NDArray[Any]

NO_NODE = -1

_BLOCK = 1024  # tokens that go through one order before the next, so that the processor overlaps their cache misses
_BEGIN_NODE = 1 + BEGIN


@kernel
def children(words: Array, begin: Array, node: int) -> tuple[int, int]:
    """The nodes low .. high after context `node`; never high < low, for which `range` may overflow."""
    low = max(np.int64(begin[node]), 0)
    return low, max(low, min(np.int64(begin[node + 1]), words.size))


@kernel
def child(words: Array, begin: Array, node: int, word: int) -> int:
    """The node of `word` after context `node`, or NO_NODE."""
    low, end = children(words, begin, node)
    high = end
    while low < high:
        middle = (low + high) >> 1
        if words[middle] < word:
            low = middle + 1
        else:
            high = middle
    return low if low < end and words[low] == word else NO_NODE


@kernel
def score_stream(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    order: int,
    stream: Array,
    start: int,
    stop: int,
    scores: Array,
    lengths: Array,
) -> None:
    """scores[i] = log P(stream[i] | the tokens of its document before it) for i in start .. stop.

    lengths[i]: of the n-gram found. A document begins at `start`. Every token is below the vocabulary's size. lengths
    may be empty.
    """
    inner = log_backoffs.size
    nodes = np.empty(
        (order + 1, _BLOCK + 1), np.int64
    )  # n-grams by order that end at each token; column 0: just before the block
    nodes[1, 0] = 1 + END
    for first in range(start, stop, _BLOCK):
        size = min(_BLOCK, stop - first)
        for i in range(size):
            nodes[1, i + 1] = 1 + stream[first + i]
            scores[first + i] = log_probs[nodes[1, i + 1]]
        for n in range(2, order + 1):
            for i in range(size):
                # The context: the n-gram, one order down, that ends at the token before.
                context = nodes[n - 1, i]
                if nodes[1, i] == 1 + END:
                    context = _BEGIN_NODE if n == 2 else NO_NODE
                node = NO_NODE
                if 0 <= context < inner:
                    node = child(words, begin, context, stream[first + i])
                    if node >= 0:
                        scores[first + i] = log_probs[node]
                    else:
                        scores[first + i] += log_backoffs[context]
                nodes[n, i + 1] = node
        for i in range(size if lengths.size > 0 else 0):
            length = order
            while length > 1 and nodes[length, i + 1] < 0:
                length -= 1
            lengths[first + i] = length
        for n in range(1, order + 1):
            nodes[n, 0] = nodes[n, size]


@kernel
def advance(words: Array, begin: Array, inner: int, contexts: Array, tokens: Array) -> Array:
    """The contexts after one more token in each row. A token is below the vocabulary's size."""
    new = np.full(contexts.shape, NO_NODE, np.int64)
    if contexts.shape[1] == 0:
        return new
    for row in range(contexts.shape[0]):
        if tokens[row] == END:
            new[row, 0] = _BEGIN_NODE
            continue
        new[row, 0] = 1 + tokens[row]
        for j in range(1, contexts.shape[1]):
            context = contexts[row, j - 1]
            if 0 <= context < inner:
                new[row, j] = child(words, begin, context, tokens[row])
    return new


@kernel
def distributions(
    words: Array, log_probs: Array, begin: Array, log_backoffs: Array, vocabulary_size: int, contexts: Array, out: Array
) -> None:
    """out[row] = log P(. | contexts[row]).

    The unigrams, backed off, are overwritten by what each longer context has seen.
    """
    inner = log_backoffs.size
    for row in range(contexts.shape[0]):
        backoff = np.float32(0)
        for context in contexts[row]:
            if 0 <= context < inner:
                backoff += log_backoffs[context]
        for word in range(vocabulary_size):
            out[row, word] = log_probs[1 + word] + backoff
        for j in range(contexts.shape[1]):
            context = contexts[row, j]
            if not 0 <= context < inner:
                continue
            backoff = np.float32(0)
            for longer in contexts[row, j + 1 :]:  # summed anew, since -inf cannot be taken away again
                if 0 <= longer < inner:
                    backoff += log_backoffs[longer]
            low, high = children(words, begin, context)
            for node in range(low, high):
                if 0 <= words[node] < vocabulary_size:
                    out[row, words[node]] = log_probs[node] + backoff
