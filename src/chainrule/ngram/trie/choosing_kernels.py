"""Compiled choices from the trie of `table.py`: the likeliest next words, and words drawn at random.

Neither builds a whole distribution. A word's log-probability is that after the longest context that has seen it, plus
the backoffs of longer contexts. So the contexts are walked from the longest to the shortest, and the unigrams last;
words that a longer context has seen are skipped in shorter ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import child, children

Array = NDArray[Any]

TINY = 1e-3  # if less mass than this is not banned, 1 - the banned mass is too inexact


@kernel
def best_words(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    vocabulary_size: int,
    ranked: Array,
    highest: Array,
    contexts: Array,
    out_log_probs: Array,
    out_words: Array,
) -> bool:
    """Return the k likeliest words of each row, best first, equal ones by lower id; k is the width of the outputs.

    ranked: all words, the likeliest unigrams first. highest: what `highest_children` gives, for as many contexts as it
    has: where the k best so far are better than any child can be, thousands of children are not read. Returns False
    where a log-probability is NaN, or a context's words do not ascend, so that some cannot be looked up.
    """
    inner = begin.size - 1
    k = out_words.shape[1]
    for row in range(contexts.shape[0]):
        heap, heap_words = out_log_probs[row], out_words[row]  # a heap with the worst candidate at its root
        size = 0
        for j in range(contexts.shape[1] - 1, -1, -1):
            context = contexts[row, j]
            if not 0 <= context < inner:
                continue
            backoff = _backoff_of_longer(log_backoffs, inner, contexts[row], j)
            if size == k and context < highest.size and highest[context] + backoff < heap[0]:
                continue
            low, high = children(words, begin, context)
            for node in range(low, high):
                log_prob = log_probs[node] + backoff
                if size == k and log_prob < heap[0]:
                    continue
                word = words[node]
                if log_prob != log_prob:
                    return False
                if 0 <= word < vocabulary_size and not _seen(words, begin, inner, contexts[row], j + 1, word):
                    size = _push(heap, heap_words, size, log_prob, word)
        backoff = _backoff_of_longer(log_backoffs, inner, contexts[row], -1)
        for word in ranked:
            log_prob = log_probs[1 + word] + backoff
            if size == k and log_prob < heap[0]:
                break
            if log_prob != log_prob:
                return False
            if not _seen(words, begin, inner, contexts[row], 0, word):
                size = _push(heap, heap_words, size, log_prob, word)
        if size < k:
            return False
        for last in range(size - 1, 0, -1):  # heapsort: the worst candidate goes to the end
            heap[0], heap[last] = heap[last], heap[0]
            heap_words[0], heap_words[last] = heap_words[last], heap_words[0]
            _sift_down(heap, heap_words, last)
    return True


@kernel
def highest_children(words: Array, log_probs: Array, begin: Array, out: Array) -> None:
    """Write the highest log-probability among the children of each of the first contexts; infinity where one is NaN."""
    for context in range(out.size):
        low, high = children(words, begin, context)
        out[context] = -np.inf
        for node in range(low, high):
            if log_probs[node] != log_probs[node]:
                out[context] = np.inf
            elif log_probs[node] > out[context]:
                out[context] = log_probs[node]


@allocating_kernel
def draw_words(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    vocabulary_size: int,
    cumulative: Array,
    contexts: Array,
    uniforms: Array,
    banned: Array,
    out_log_probs: Array,
    out_words: Array,
) -> bool:
    """Draw a word for each row from its distribution without the banned words; return False where no word is left to
    draw.

    Inverts the cumulative distribution at uniforms[row], with the words in the order of the walk. cumulative[w]: the
    sum of the unigram probabilities below w. banned: ascending.
    """
    cursors = np.empty((contexts.shape[1], 2), np.int64)
    for row in range(contexts.shape[0]):
        mass = 1.0
        for word in banned:
            mass -= math.exp(_log_prob(words, log_probs, begin, log_backoffs, contexts[row], word))
        word = -1
        for attempt in range(2):
            if attempt == 1 or mass < TINY:  # rounding left less mass than the target: use the mass that there is
                mass, _, _ = _walk(
                    words, log_probs, begin, log_backoffs, cumulative, contexts[row], banned, cursors, np.inf
                )
            target = uniforms[row] * mass * (1.0 if attempt == 0 else 1.0 - 1e-12)  # never past the last word
            _, word, log_prob = _walk(
                words, log_probs, begin, log_backoffs, cumulative, contexts[row], banned, cursors, target
            )
            if word >= 0:
                out_log_probs[row], out_words[row] = log_prob, word
                break
        if not 0 <= word < vocabulary_size:
            return False
    return True


@kernel
def _walk(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    cumulative: Array,
    contexts: Array,
    banned: Array,
    cursors: Array,
    target: float,
) -> tuple[float, int, float]:
    """Return the mass walked over, and the first word at which it exceeds `target`, or -1, with its log-probability.

    cursors: scratch; for each context the next child to read, and the end of its children.
    """
    inner = begin.size - 1
    vocabulary_size = cumulative.size - 1
    mass = 0.0
    for j in range(contexts.size - 1, -1, -1):
        context = contexts[j]
        if not 0 <= context < inner:
            continue
        backoff = _backoff_of_longer(log_backoffs, inner, contexts, j)
        _rewind(words, begin, inner, contexts, j + 1, cursors)
        next_banned = 0
        low, high = children(words, begin, context)
        for node in range(low, high):
            word = words[node]
            while next_banned < banned.size and banned[next_banned] < word:
                next_banned += 1
            if next_banned < banned.size and banned[next_banned] == word:
                continue
            if _advance_to(words, cursors, j + 1, word) or not 0 <= word < vocabulary_size:
                continue
            mass += math.exp(log_probs[node] + backoff)
            if mass > target:
                return mass, word, log_probs[node] + backoff
    # The unigrams: words neither seen nor banned form runs, whose sums `cumulative` has.
    backoff = _backoff_of_longer(log_backoffs, inner, contexts, -1)
    scale = math.exp(backoff)
    if not scale > 0:
        return mass, -1, 0.0
    _rewind(words, begin, inner, contexts, 0, cursors)
    next_banned = 0
    target_below = (target - mass) / scale
    skipped = 0.0  # the unigram mass of the skipped words
    first = 0
    while first < vocabulary_size:
        stop = vocabulary_size  # the next word to skip
        if next_banned < banned.size:
            stop = min(stop, banned[next_banned])
        for j in range(contexts.size):
            if cursors[j, 0] < cursors[j, 1]:
                stop = min(stop, words[cursors[j, 0]])
        stop = max(stop, first)
        if cumulative[stop] - skipped > target_below:
            low, high = first, stop - 1
            while low < high:
                middle = (low + high) >> 1
                if cumulative[middle + 1] - skipped > target_below:
                    high = middle
                else:
                    low = middle + 1
            return mass, low, log_probs[1 + low] + backoff
        if stop < vocabulary_size:
            skipped += cumulative[stop + 1] - cumulative[stop]
        first = stop + 1
        while next_banned < banned.size and banned[next_banned] <= stop:
            next_banned += 1
        for j in range(contexts.size):
            while cursors[j, 0] < cursors[j, 1] and words[cursors[j, 0]] <= stop:
                cursors[j, 0] += 1
    return mass + scale * max(cumulative[vocabulary_size] - skipped, 0.0), -1, 0.0


@kernel
def _rewind(words: Array, begin: Array, inner: int, contexts: Array, shortest: int, cursors: Array) -> None:
    """Move the cursors of the contexts from `shortest` on to their first children."""
    for j in range(shortest, contexts.size):
        cursors[j, 0] = cursors[j, 1] = 0
        if 0 <= contexts[j] < inner:
            cursors[j, 0], cursors[j, 1] = children(words, begin, contexts[j])


@kernel
def _advance_to(words: Array, cursors: Array, shortest: int, word: int) -> bool:
    """Return whether a context from `shortest` on has seen `word`; the words of successive calls must ascend."""
    for j in range(shortest, cursors.shape[0]):
        while cursors[j, 0] < cursors[j, 1] and words[cursors[j, 0]] < word:
            cursors[j, 0] += 1
        if cursors[j, 0] < cursors[j, 1] and words[cursors[j, 0]] == word:
            return True
    return False


@kernel
def _backoff_of_longer(log_backoffs: Array, inner: int, contexts: Array, j: int) -> float:
    """Return the sum of the log backoffs of the contexts longer than the j-th, bit for bit as in `distributions`."""
    backoff = np.float32(0)
    for longer in contexts[j + 1 :]:
        if 0 <= longer < inner:
            backoff += log_backoffs[longer]
    return backoff


@kernel
def _seen(words: Array, begin: Array, inner: int, contexts: Array, shortest: int, word: int) -> bool:
    """Return whether a context from `shortest` on has seen `word`."""
    for context in contexts[shortest:]:
        if 0 <= context < inner and child(words, begin, context, word) >= 0:
            return True
    return False


@kernel
def _log_prob(words: Array, log_probs: Array, begin: Array, log_backoffs: Array, contexts: Array, word: int) -> float:
    inner = begin.size - 1
    for j in range(contexts.size - 1, -1, -1):
        if 0 <= contexts[j] < inner:
            node = child(words, begin, contexts[j], word)
            if node >= 0:
                return log_probs[node] + _backoff_of_longer(log_backoffs, inner, contexts, j)
    return log_probs[1 + word] + _backoff_of_longer(log_backoffs, inner, contexts, -1)


@kernel
def _is_worse(log_prob: float, word: int, other: float, other_word: int) -> bool:
    return log_prob < other or (log_prob == other and word > other_word)


@kernel
def _push(heap: Array, heap_words: Array, size: int, log_prob: float, word: int) -> int:
    """Push a word on the heap; if the heap is full, replace the worst one if that is worse. Returns the new size."""
    if size == heap.size:
        if _is_worse(heap[0], heap_words[0], log_prob, word):
            heap[0], heap_words[0] = log_prob, word
            _sift_down(heap, heap_words, size)
        return size
    index = size
    heap[index], heap_words[index] = log_prob, word
    while index > 0:
        parent = (index - 1) >> 1
        if not _is_worse(heap[index], heap_words[index], heap[parent], heap_words[parent]):
            break
        heap[index], heap[parent] = heap[parent], heap[index]
        heap_words[index], heap_words[parent] = heap_words[parent], heap_words[index]
        index = parent
    return size + 1


@kernel
def _sift_down(heap: Array, heap_words: Array, size: int) -> None:
    """Move the root of a heap of `size` words down to its position."""
    index = 0
    while True:
        worst = index
        for child_index in range(2 * index + 1, min(2 * index + 3, size)):
            if _is_worse(heap[child_index], heap_words[child_index], heap[worst], heap_words[worst]):
                worst = child_index
        if worst == index:
            return
        heap[index], heap[worst] = heap[worst], heap[index]
        heap_words[index], heap_words[worst] = heap_words[worst], heap_words[index]
        index = worst
