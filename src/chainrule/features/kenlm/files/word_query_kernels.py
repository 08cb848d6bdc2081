"""Compiled queries of one word at a time, for callers that keep their own states; and scoring with a hashed model.

Passing an array costs more than looking a word up, so models and states are passed by their addresses:

    a model is a record of numbers, with the fields below; the caller keeps it and its arrays alive
    a state is its length L, then a number for each context of 1 .. L words: in a trie its node, in a hashed model its
    first word and backoff; zeros are the empty context

States may hold anything: every node is checked against its bound before it is used as an index. Word ids must be below
the vocabulary size. Unlike in `ngram/trie/query_kernels.py`, </s> does not end a document, and <s> has log-probability
0. A hashed model scores with the same states, one in each row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import array_at, prefetch
from chainrule.base.jit import allocating_kernel, kernel, tiny_kernel
from chainrule.features.kenlm.files.binary_kernels import HASHED, KIND, ORDER, RECORD_SIZE, STATE_SIZE, extend_hashed
from chainrule.ngram.trie.query_kernels import LONG_RUN, NO_NODE, child, children, find_slot, slot_of
from chainrule.protocol import BEGIN, END, UNKNOWN
from chainrule.text.tokenization.vocabulary_kernels import HASH_FACTOR, HASH_START, ask_for_spellings, find_token, mixed

Array = NDArray[Any]

# The fields of a record: for all models, the vocabulary; for a trie, its arrays and their sizes.
POOL, POOL_SIZE, OFFSETS, TOKENS, SLOTS, SLOTS_SIZE = 2, 3, 4, 5, 6, 7
NODES, NODE_COUNT, CONTEXTS, IS_WIDE, INNER, INDEX, INDEX_SIZE = 8, 9, 10, 11, 12, 13, 14

_WORDS = 64  # of a text, looked up together
LOG10_OF_E = 0.4342944819032518
_TAB, _LINE_FEED, _RETURN, _SPACE = 9, 10, 13, 32  # between tab and return are line feed, vertical tab and form feed


@kernel
def extend(model_address: int, word: int, before: int, after: int) -> tuple[float, int]:
    """log10 P(word | the state before) and the length of the n-gram that matched; writes the state after.

    Both addresses may be the same. Passing addresses is faster than passing arrays between kernels, too.
    """
    if array_at(model_address, RECORD_SIZE, np.int64)[KIND] == HASHED:
        return extend_hashed(model_address, word, before, after)
    return _extend_trie(model_address, word, before, after)


@kernel
def _extend_trie(model_address: int, word: int, before_address: int, after_address: int) -> tuple[float, int]:
    model = array_at(model_address, RECORD_SIZE, np.int64)
    before, after = array_at(before_address, STATE_SIZE, np.int64), array_at(after_address, STATE_SIZE, np.int64)
    inner = model[INNER]
    log_probs = array_at(model[NODES], 2 * model[NODE_COUNT], np.float32)[1::2]
    context_length = min(max(before[0], 0), model[ORDER] - 1)
    _prefetch_children(model_address, before, context_length, word)
    score = 0.0 if word == BEGIN else np.float64(log_probs[1 + word])
    length = 1
    context = before[length]  # the context of `length` words; read before it is overwritten
    after[0], after[1] = _matters(model_address, 1 + word), 1 + word
    while length <= context_length and 0 <= context < inner:
        node = _child(model_address, context, word)
        if node == NO_NODE:
            break
        length += 1
        score = np.float64(log_probs[node])
        if length < model[ORDER]:
            context = before[length]
            after[length] = node
            if _matters(model_address, node):
                after[0] = length
    for unmatched in range(length, context_length + 1):
        context = context if unmatched == length else before[unmatched]
        if 0 <= context < inner:
            score += _log_backoff(model_address, context)
    return score * LOG10_OF_E, length


@kernel
def _prefetch_children(model_address: int, contexts: Array, context_length: int, word: int) -> None:
    """Prefetches what the search for a word after each context reads, to overlap the cache misses."""
    model = array_at(model_address, RECORD_SIZE, np.int64)
    words = array_at(model[NODES], 2 * model[NODE_COUNT], np.int32)[::2]
    if model[IS_WIDE] != 0:
        begin = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int64)[::2]
        slots = array_at(model[INDEX], model[INDEX_SIZE], np.int64)
        _prefetch_children_in(words, begin, slots, contexts, context_length, word)
    else:
        narrow = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int32)[::2]
        narrow_slots = array_at(model[INDEX], model[INDEX_SIZE], np.int32)
        _prefetch_children_in(words, narrow, narrow_slots, contexts, context_length, word)


@kernel
def _prefetch_children_in(
    words: Array, begin: Array, slots: Array, contexts: Array, context_length: int, word: int
) -> None:
    inner = begin.size - 1
    prefetch(words, 1 + word)
    prefetch(begin, 1 + word)
    for length in range(1, context_length + 1):
        context = contexts[length]
        if 0 <= context < inner:
            low, end = children(words, begin, context)
            if slots.size > 0 and end - low > LONG_RUN:
                prefetch(slots, slot_of(context, word, slots.size))
            else:
                _prefetch_node(words, begin, low)
                _prefetch_node(words, begin, low + ((end - low) >> 1))
                _prefetch_node(words, begin, end - 1)
    for length in range(1, context_length + 1):
        context = contexts[length]
        if 0 <= context < inner:
            low, end = children(words, begin, context)
            if slots.size > 0 and end - low > LONG_RUN:
                _prefetch_node(words, begin, np.int64(slots[slot_of(context, word, slots.size)]))


@kernel
def _prefetch_node(words: Array, begin: Array, node: int) -> None:
    """Prefetches the word of a node and its range of children, where the next search begins."""
    prefetch(words, node)
    prefetch(begin, node)


@kernel
def _child(model_address: int, context: int, word: int) -> int:
    """As `child`; a long run is searched by hash."""
    model = array_at(model_address, RECORD_SIZE, np.int64)
    words = array_at(model[NODES], 2 * model[NODE_COUNT], np.int32)[::2]
    if model[IS_WIDE] != 0:
        begin = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int64)[::2]
        return _child_in(words, begin, array_at(model[INDEX], model[INDEX_SIZE], np.int64), context, word)
    begin = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int32)[::2]
    return _child_in(words, begin, array_at(model[INDEX], model[INDEX_SIZE], np.int32), context, word)


@kernel
def _child_in(words: Array, begin: Array, slots: Array, context: int, word: int) -> int:
    low, end = children(words, begin, context)
    if slots.size > 0 and end - low > LONG_RUN:
        return find_slot(words, low, end, word, slots, slot_of(context, word, slots.size))
    return child(words, begin, context, word)


@kernel
def _log_backoff(model_address: int, context: int) -> float:
    model = array_at(model_address, RECORD_SIZE, np.int64)
    if model[IS_WIDE] != 0:
        return array_at(model[CONTEXTS], 4 * (model[INNER] + 1), np.float32)[4 * context + 2]
    return array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.float32)[2 * context + 1]


@kernel
def _matters(model_address: int, node: int) -> bool:
    """Whether an n-gram matters as a context: it has a backoff, or children."""
    model = array_at(model_address, RECORD_SIZE, np.int64)
    if not 0 <= node < model[INNER]:
        return False
    if _log_backoff(model_address, node) != 0:
        return True
    if model[IS_WIDE] != 0:
        wide = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int64)
        return wide[2 * node + 2] > wide[2 * node]
    narrow = array_at(model[CONTEXTS], 2 * (model[INNER] + 1), np.int32)
    return narrow[2 * node + 2] > narrow[2 * node]


@tiny_kernel
def score_word(model_address: int, word: int, before: int, after: int) -> float:
    """log10 P(word | a state)."""
    return extend(model_address, word, before, after)[0]


@kernel
def score_words(model_address: int, words: Array, before: Array, after: int, scores: Array) -> None:
    """As `score_word` for many words, each after a state of its own. before: addresses; after: that of all states."""
    for i in range(words.size):
        scores[i] = extend(model_address, words[i], before[i], after + i * STATE_SIZE * _BYTES)[0]


@tiny_kernel
def fully_score_word(model_address: int, word: int, before: int, after: int) -> tuple[float, int, bool]:
    """As `score_word`, with the length of the matching n-gram, and whether the word is unknown."""
    score, length = extend(model_address, word, before, after)
    return score, length, word == UNKNOWN


@tiny_kernel
def score_text(model_address: int, text: bytes, begins: bool, ends: bool, state: int) -> float:
    """log10 P of the words of a text.

    begins: whether after <s>. ends: whether with </s>. state: the address of an empty one.
    """
    return score_letters(model_address, np.frombuffer(text, np.uint8), begins, ends, state)


@kernel
def score_letters(model_address: int, letters: Array, begins: bool, ends: bool, state: int) -> float:
    """As `score_text`, for the bytes of a text as an array."""
    nothing = array_at(state, 0, np.float64)
    return _score_text(model_address, letters, begins, ends, begins and ends, state, nothing, nothing)[0]


@kernel
def fully_score_text(
    model_address: int, text: Array, begins: bool, ends: bool, state: int, scores: Array, lengths: Array
) -> int:
    """Writes the log10 P of each word, and the length of the matching n-gram, negative for an unknown word.

    Returns the number of words, which the outputs must have room for. state: the address of an empty one.
    """
    return _score_text(model_address, text, begins, ends, False, state, scores, lengths)[1]


@allocating_kernel
def _score_text(
    model_address: int,
    text: Array,
    begins: bool,
    ends: bool,
    is_whole: bool,
    state: int,
    scores: Array,
    lengths: Array,
) -> tuple[float, int]:
    if begins:
        extend(model_address, BEGIN, state, state)
    places, hashes = np.empty((2, _WORDS), np.int64), np.empty(_WORDS, np.uint64)
    total, count, position, found = 0.0, 0, 0, -1
    while found != 0:
        found, position = _next_words(model_address, text, position, text.size, is_whole, places, hashes)
        _prefetch_unigrams(model_address, places[0], found)
        if found == 0 and ends:
            places[0, 0] = END
        for i in range(max(found, 1) if ends else found):
            word = places[0, i]
            score, length = extend(model_address, word, state, state)
            total += score
            if scores.size > 0:
                scores[count], lengths[count] = score, -length if word == UNKNOWN else length
            count += 1
    return total, count


@allocating_kernel
def encode_texts(model_address: int, text: Array, stops: Array, is_whole: bool, ids: Array) -> int:
    """Writes the ids of sentences, each ended by </s>; returns their number, or -1 if a sentence has <s> or </s>.

    stops: the end of each sentence in `text`. `ids` must have room for all.
    """
    places, hashes = np.empty((2, _WORDS), np.int64), np.empty(_WORDS, np.uint64)
    count = position = 0
    for stop in stops:
        found = -1
        while found != 0:
            found, position = _next_words(model_address, text, position, stop, is_whole, places, hashes)
            for i in range(found):
                if places[0, i] == BEGIN or places[0, i] == END:
                    return -1
                ids[count + i] = places[0, i]
            count += found
        ids[count] = END
        count += 1
        position = stop
    return count


@kernel
def _next_words(
    model_address: int, text: Array, position: int, stop: int, is_whole: bool, places: Array, hashes: Array
) -> tuple[int, int]:
    """Writes the ids of the next words to places[0], as many as there is room for.

    Returns how many, and the position after them. ASCII white space separates words. A NUL byte ends the word or, if
    is_whole, the sentence, as the two ways of KenLM. The words of a batch are looked up at once, to overlap the cache
    misses.
    """
    model = array_at(model_address, RECORD_SIZE, np.int64)
    slots = array_at(model[SLOTS], model[SLOTS_SIZE], np.uint64)
    starts, ends = places[0], places[1]
    count = 0
    while count < hashes.size:
        while position < stop and _is_white(text[position]):
            position += 1
        if position >= stop or (is_whole and text[position] == 0):
            break
        starts[count], hashed = position, HASH_START
        while position < stop:
            byte = text[position]
            if byte <= _SPACE and (byte == 0 or _is_white(byte)):
                break
            hashed = (hashed ^ np.uint64(byte)) * HASH_FACTOR
            position += 1
        end = ends[count] = position
        while position < stop and ((is_whole and text[end] == 0) or not _is_white(text[position])):
            position += 1
        hashes[count] = mixed(hashed)
        prefetch(slots, np.int64(hashes[count] & np.uint64(slots.size - 1)))
        count += 1
    pool = array_at(model[POOL], model[POOL_SIZE], np.uint8)
    offsets = array_at(model[OFFSETS], model[TOKENS] + 1, np.int64)
    ask_for_spellings(count, starts, ends, hashes, slots, pool, offsets)
    for i in range(count):
        token = find_token(text, starts[i], ends[i], hashes[i], slots, pool, offsets)[0]
        starts[i] = max(token, UNKNOWN)
    return count, position


@kernel
def _prefetch_unigrams(model_address: int, ids: Array, count: int) -> None:
    """Prefetches the nodes of words in a trie."""
    model = array_at(model_address, RECORD_SIZE, np.int64)
    if model[KIND] == HASHED:
        return
    nodes = array_at(model[NODES], model[NODE_COUNT], np.int64)
    contexts = array_at(model[CONTEXTS], model[INNER] + 1, np.int64)
    for i in range(count):
        prefetch(nodes, 1 + ids[i])
        prefetch(contexts, (1 + ids[i]) * (1 + (model[IS_WIDE] != 0)))


@kernel
def id_of_word(model_address: int, letters: Array) -> int:
    """The id of a word, up to a NUL byte; of <unk> where it is empty, or has a space or a line feed."""
    hashed, size = HASH_START, 0
    while size < letters.size and letters[size] != 0:
        if letters[size] == _SPACE or letters[size] == _LINE_FEED:
            return UNKNOWN
        hashed = (hashed ^ np.uint64(letters[size])) * HASH_FACTOR
        size += 1
    if size == 0:
        return UNKNOWN
    model = array_at(model_address, RECORD_SIZE, np.int64)
    pool = array_at(model[POOL], model[POOL_SIZE], np.uint8)
    offsets = array_at(model[OFFSETS], model[TOKENS] + 1, np.int64)
    slots = array_at(model[SLOTS], model[SLOTS_SIZE], np.uint64)
    return max(find_token(letters, 0, size, mixed(hashed), slots, pool, offsets)[0], UNKNOWN)


@kernel
def _is_white(byte: int) -> bool:
    return byte == _SPACE or _TAB <= byte <= _RETURN


_LOG_10 = 1 / LOG10_OF_E
_BYTES = 8  # of each number in a state


@kernel
def score_stream(
    model_address: int,
    stream: Array,
    start: int,
    stop: int,
    begin_state: Array,
    state: int,
    scratch: int,
    scores: Array,
    lengths: Array,
    unknown: Array,
) -> None:
    """scores[i] = log P(stream[i] | the tokens of its document before it) for i in start .. stop.

    unknown[i] = log P(<unk> | the same tokens); it may be empty. A document begins at `start`. begin_state: the
    state after <s>. state, scratch: the addresses of two states to overwrite.
    """
    _copy(begin_state, state)
    for i in range(start, stop):
        if unknown.size > 0:
            unknown[i] = extend(model_address, UNKNOWN, state, scratch)[0] * _LOG_10
        score, length = extend(model_address, np.int64(stream[i]), state, state)
        scores[i], lengths[i] = (score if stream[i] != BEGIN else -np.inf) * _LOG_10, length
        if stream[i] == END:
            _copy(begin_state, state)


@kernel
def _copy(numbers: Array, address: int) -> None:
    state = array_at(address, STATE_SIZE, np.int64)
    for i in range(STATE_SIZE):
        state[i] = numbers[i]


@allocating_kernel
def advance(model_address: int, states: Array, address: int, tokens: Array, begin_state: Array) -> None:
    """Advances each row of `states` by one token. address: that of `states`."""
    for row in range(states.shape[0]):
        if tokens[row] == END:
            states[row] = begin_state
        else:
            state = address + row * states.shape[1] * _BYTES
            extend(model_address, np.int64(tokens[row]), state, state)


@kernel
def distributions(model_address: int, states: Array, address: int, scratch: int, rows: Array) -> None:
    """rows[row, word] = log P(word | states[row]). scratch: the address of a state to overwrite."""
    for row in range(states.shape[0]):
        state = address + row * states.shape[1] * _BYTES
        for word in range(rows.shape[1]):
            score = extend(model_address, word, state, scratch)[0]
            rows[row, word] = (score if word != BEGIN else -np.inf) * _LOG_10
