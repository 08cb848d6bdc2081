"""The compiled choices over the trie of `table.py`: the likeliest next words, and words drawn at random.

Neither builds a whole distribution. A word's log-probability stands at the longest context that has seen it, plus the
back-offs of the longer ones; so the contexts are walked from the longest to the shortest, what a longer one has seen is
passed over in the shorter ones, and the unigrams come last.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.trie.query_kernels import child, children

Array = NDArray[Any]

TINY = 1e-3  # the mass beside the banned words below which one minus theirs is too inexact


@kernel
def best_words(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    vocabulary_size: int,
    ranked: Array,
    contexts: Array,
    out_log_probs: Array,
    out_words: Array,
) -> bool:
    """The k likeliest words of each row, best first, equal ones by lower id; k is the width of the outputs.

    ranked: all words, the likeliest unigrams first. False where a log-probability is NaN, or a context's words are in
    no order, so that some are not found.
    """
    inner = log_backoffs.size
    k = out_words.shape[1]
    for row in range(contexts.shape[0]):
        heap, heap_words = out_log_probs[row], out_words[row]  # the worst of those kept at its root
        size = 0
        for j in range(contexts.shape[1] - 1, -1, -1):
            context = contexts[row, j]
            if not 0 <= context < inner:
                continue
            backoff = _backoff_of_longer(log_backoffs, contexts[row], j)
            low, high = children(words, begin, context)
            for node in range(low, high):
                log_prob = log_probs[node] + backoff
                if size == k and log_prob < heap[0]:
                    continue
                word = words[node]
                if log_prob != log_prob:
                    return False
                if 0 <= word < vocabulary_size and not _seen(words, begin, inner, contexts[row], j + 1, word):
                    size = _keep(heap, heap_words, size, log_prob, word)
        backoff = _backoff_of_longer(log_backoffs, contexts[row], -1)
        for word in ranked:
            log_prob = log_probs[1 + word] + backoff
            if size == k and log_prob < heap[0]:
                break
            if log_prob != log_prob:
                return False
            if not _seen(words, begin, inner, contexts[row], 0, word):
                size = _keep(heap, heap_words, size, log_prob, word)
        if size < k:
            return False
        for last in range(size - 1, 0, -1):  # the worst goes to the end, again and again
            heap[0], heap[last] = heap[last], heap[0]
            heap_words[0], heap_words[last] = heap_words[last], heap_words[0]
            _sink(heap, heap_words, last)
    return True


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
    """A word for each row, drawn from its distribution without the banned words; False where a row has none to draw.

    The distribution is inverted at uniforms[row], its words in the order of the walk. cumulative[w]: what the unigrams
    below w have together. banned: ascending.
    """
    places = np.empty((contexts.shape[1], 2), np.int64)
    for row in range(contexts.shape[0]):
        mass = 1.0
        for word in banned:
            mass -= math.exp(_log_prob(words, log_probs, begin, log_backoffs, contexts[row], word))
        word = -1
        for attempt in range(2):
            if attempt == 1 or mass < TINY:  # float32 left less than what was aimed at: aim at what there is
                mass, _, _ = _walked(
                    words, log_probs, begin, log_backoffs, cumulative, contexts[row], banned, places, np.inf
                )
            target = uniforms[row] * mass * (1.0 if attempt == 0 else 1.0 - 1e-12)  # never past the last word
            _, word, log_prob = _walked(
                words, log_probs, begin, log_backoffs, cumulative, contexts[row], banned, places, target
            )
            if word >= 0:
                out_log_probs[row], out_words[row] = log_prob, word
                break
        if not 0 <= word < vocabulary_size:
            return False
    return True


@kernel
def _walked(
    words: Array,
    log_probs: Array,
    begin: Array,
    log_backoffs: Array,
    cumulative: Array,
    contexts: Array,
    banned: Array,
    places: Array,
    target: float,
) -> tuple[float, int, float]:
    """The mass walked over, and the first word at which it exceeds `target` with its log-probability; else -1.

    places: room for where each context's words are read, and where they end.
    """
    inner = log_backoffs.size
    vocabulary_size = cumulative.size - 1
    mass = 0.0
    for j in range(contexts.size - 1, -1, -1):
        context = contexts[j]
        if not 0 <= context < inner:
            continue
        backoff = _backoff_of_longer(log_backoffs, contexts, j)
        _rewind(words, begin, inner, contexts, j + 1, places)
        next_banned = 0
        low, high = children(words, begin, context)
        for node in range(low, high):
            word = words[node]
            while next_banned < banned.size and banned[next_banned] < word:
                next_banned += 1
            if next_banned < banned.size and banned[next_banned] == word:
                continue
            if _passes(words, places, j + 1, word) or not 0 <= word < vocabulary_size:
                continue
            mass += math.exp(log_probs[node] + backoff)
            if mass > target:
                return mass, word, log_probs[node] + backoff
    # The unigrams: those that are left lie between the words seen or banned, in runs that `cumulative` adds up.
    backoff = _backoff_of_longer(log_backoffs, contexts, -1)
    scale = math.exp(backoff)
    if not scale > 0:
        return mass, -1, 0.0
    _rewind(words, begin, inner, contexts, 0, places)
    next_banned = 0
    wanted = (target - mass) / scale
    passed = 0.0  # what the words passed over have together
    first = 0
    while first < vocabulary_size:
        stop = vocabulary_size  # the next word to pass over
        if next_banned < banned.size:
            stop = min(stop, banned[next_banned])
        for j in range(contexts.size):
            if places[j, 0] < places[j, 1]:
                stop = min(stop, words[places[j, 0]])
        stop = max(stop, first)
        if cumulative[stop] - passed > wanted:
            low, high = first, stop - 1
            while low < high:
                middle = (low + high) >> 1
                if cumulative[middle + 1] - passed > wanted:
                    high = middle
                else:
                    low = middle + 1
            return mass, low, log_probs[1 + low] + backoff
        if stop < vocabulary_size:
            passed += cumulative[stop + 1] - cumulative[stop]
        first = stop + 1
        while next_banned < banned.size and banned[next_banned] <= stop:
            next_banned += 1
        for j in range(contexts.size):
            while places[j, 0] < places[j, 1] and words[places[j, 0]] <= stop:
                places[j, 0] += 1
    return mass + scale * max(cumulative[vocabulary_size] - passed, 0.0), -1, 0.0


@kernel
def _rewind(words: Array, begin: Array, inner: int, contexts: Array, shortest: int, places: Array) -> None:
    """Puts the contexts from `shortest` on at their first words."""
    for j in range(shortest, contexts.size):
        places[j, 0] = places[j, 1] = 0
        if 0 <= contexts[j] < inner:
            places[j, 0], places[j, 1] = children(words, begin, contexts[j])


@kernel
def _passes(words: Array, places: Array, shortest: int, word: int) -> bool:
    """Whether a context from `shortest` on has seen `word`; words are asked for in ascending order."""
    for j in range(shortest, places.shape[0]):
        while places[j, 0] < places[j, 1] and words[places[j, 0]] < word:
            places[j, 0] += 1
        if places[j, 0] < places[j, 1] and words[places[j, 0]] == word:
            return True
    return False


@kernel
def _backoff_of_longer(log_backoffs: Array, contexts: Array, j: int) -> float:
    """What the contexts longer than the j-th cost, summed as in `distributions`, so that no bit differs."""
    backoff = np.float32(0)
    for longer in contexts[j + 1 :]:
        if 0 <= longer < log_backoffs.size:
            backoff += log_backoffs[longer]
    return backoff


@kernel
def _seen(words: Array, begin: Array, inner: int, contexts: Array, shortest: int, word: int) -> bool:
    """Whether a context from `shortest` on has seen `word`."""
    for context in contexts[shortest:]:
        if 0 <= context < inner and child(words, begin, context, word) >= 0:
            return True
    return False


@kernel
def _log_prob(words: Array, log_probs: Array, begin: Array, log_backoffs: Array, contexts: Array, word: int) -> float:
    for j in range(contexts.size - 1, -1, -1):
        if 0 <= contexts[j] < log_backoffs.size:
            node = child(words, begin, contexts[j], word)
            if node >= 0:
                return log_probs[node] + _backoff_of_longer(log_backoffs, contexts, j)
    return log_probs[1 + word] + _backoff_of_longer(log_backoffs, contexts, -1)


@kernel
def _is_worse(log_prob: float, word: int, other: float, other_word: int) -> bool:
    return log_prob < other or (log_prob == other and word > other_word)


@kernel
def _keep(heap: Array, heap_words: Array, size: int, log_prob: float, word: int) -> int:
    """Puts a word on the heap, or in the place of the worst one where the heap is full; the size after that."""
    if size == heap.size:
        if _is_worse(heap[0], heap_words[0], log_prob, word):
            heap[0], heap_words[0] = log_prob, word
            _sink(heap, heap_words, size)
        return size
    place = size
    heap[place], heap_words[place] = log_prob, word
    while place > 0:
        parent = (place - 1) >> 1
        if not _is_worse(heap[place], heap_words[place], heap[parent], heap_words[parent]):
            break
        heap[place], heap[parent] = heap[parent], heap[place]
        heap_words[place], heap_words[parent] = heap_words[parent], heap_words[place]
        place = parent
    return size + 1


@kernel
def _sink(heap: Array, heap_words: Array, size: int) -> None:
    """Lets the root of a heap of `size` down to where it belongs."""
    place = 0
    while True:
        worst = place
        for below in range(2 * place + 1, min(2 * place + 3, size)):
            if _is_worse(heap[below], heap_words[below], heap[worst], heap_words[worst]):
                worst = below
        if worst == place:
            return
        heap[place], heap[worst] = heap[worst], heap[place]
        heap_words[place], heap_words[worst] = heap_words[worst], heap_words[place]
        place = worst
