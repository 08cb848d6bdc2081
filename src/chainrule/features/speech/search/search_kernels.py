"""The compiled prefix beam search over CTC's labels (Hannun et al. 2014, arXiv 1408.2873).

A beam is a text of whole words, the word that is being spelled, and the last label, which decides whether the same
label starts a new character. Texts and words are nodes of trees, found by hashing, so that equal ones have one number:

    texts[t]   its parent, its last word (a node of `words`), its hotwords, whether it is scored (NEW, QUEUED, SCORED)
    words[w]   its parent, its last code point, its length, its node among the known words and among the hotwords, or -1
    beams[b]   the fields from TEXT on; `spans` are lists of the frames of words, linked to their parents

The search stops where new texts need the score of a language model, and goes on once the caller has written it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.jit import kernel
from chainrule.features.speech.search.words_kernels import NOWHERE, child_of, slot_of

Array = NDArray[Any]

# The columns of beams; CLOSED and CLOSED_END: the frames of a word that a candidate has just ended, CLOSED -1 if none.
TEXT, WORD, LAST, SPAN, START, STOP, BREAKS, CLOSED, CLOSED_END, BEAM_FIELDS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
PARENT, LAST_WORD, HOTWORDS, STATUS = 0, 1, 2, 3  # of texts
CODE, LENGTH, KNOWN, HOT = 1, 2, 3, 4  # of words; 0 is PARENT
NEW, QUEUED, SCORED = 0, 1, 2
# What a label is: the blank, a space, and by bits a piece that starts a word, ends one.
PLAIN, BLANK, SPACE, STARTS, ENDS = 0, 1, 2, 4, 8
# The counters that the search keeps between calls.
BEAMS, CANDIDATES, TEXTS, WORDS, SPANS, FRAME, PENDING, FORCED, EXTENDED, COUNTERS = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
DONE, NEEDS_SCORES, NEEDS_ROOM = 0, 1, 2  # why `search` returns
# Settings, as floating point numbers.
PRUNE, HOT_WEIGHT, UNKNOWN_OFFSET, HAS_MODEL, HISTORY, WIDTH, PIECES, LEAKS = 0, 1, 2, 3, 4, 5, 6, 7
FIRST, SCORES_WORDS, ASKS = 8, 9, 10  # the first frame's number; who scores unfinished words: the kernel, or the caller
_AVERAGE_WORD = 6


@kernel
def rehash(rows: Array, count: int, slots: Array) -> None:
    """Fill the empty table of all texts or of all words: keyed by their first two columns."""
    for row in range(1, count):
        slot = slot_of(int(rows[row, 0]), int(rows[row, 1]), 0, slots.size)
        while slots[slot] >= 0:
            slot = (slot + 1) & (slots.size - 1)
        slots[slot] = row


@kernel
def spell(words: Array, wanted: Array, codes: Array, offsets: Array) -> None:
    """Write the code points of words; offsets: where each begins, and the end, as their lengths say."""
    for i in range(wanted.size):
        node = int(wanted[i])
        for place in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            codes[place] = words[node, CODE]
            node = int(words[node, PARENT])


@kernel
def ask(nodes: Array, texts: Array, words: Array, word_ids: Array, addresses: Array, ids: Array, before: Array) -> None:
    """Write the ids of the last words of all texts, and the addresses of the states before them.

    word_ids: of the nodes of known words, and last that of words that are not known.
    """
    for i in range(nodes.size):
        text = nodes[i]
        known = words[texts[text, LAST_WORD], KNOWN]
        ids[i] = word_ids[known if known >= 0 else word_ids.size - 1]
        before[i] = addresses[texts[text, PARENT]]


@kernel
def enter(
    nodes: Array,
    ids: Array,
    log10_probs: Array,
    after: int,
    size: int,
    alpha: float,
    to_nats: float,
    beta: float,
    unknown_offset: float,
    hot_weight: float,
    texts: Array,
    raw: Array,
    addresses: Array,
    text_scores: Array,
) -> None:
    """Enter the scores of all texts that end in words of these log-probabilities, and the addresses of their states.

    after, size: where the first of their states is, and the bytes of each. An id of 0 is that of an unknown word.
    """
    for i in range(nodes.size):
        text = nodes[i]
        log10_prob = log10_probs[i] + (unknown_offset if ids[i] == 0 else 0.0)
        raw[text] = raw[texts[text, PARENT]] + (alpha * log10_prob * to_nats + beta)
        addresses[text] = after + i * size
        text_scores[text] = raw[text] + hot_weight * texts[text, HOTWORDS]
        texts[text, STATUS] = SCORED


@kernel
def longer_word(
    node: int,
    code: int,
    words: Array,
    word_scores: Array,
    word_slots: Array,
    known: Array,
    known_slots: Array,
    hot: Array,
    hot_slots: Array,
    shortest: Array,
    settings: Array,
    counts: Array,
) -> int:
    """Return the word after one more character. A new one is scored as unfinished, if the kernel scores words."""
    slot = slot_of(node, code, 0, word_slots.size)
    while word_slots[slot] >= 0:
        found = int(word_slots[slot])
        if words[found, PARENT] == node and words[found, CODE] == code:
            return found
        slot = (slot + 1) & (word_slots.size - 1)
    new = counts[WORDS]
    counts[WORDS] = new + 1
    word_slots[slot] = new
    length = int(words[node, LENGTH]) + 1
    in_known = NOWHERE if words[node, KNOWN] < 0 else child_of(known, known_slots, int(words[node, KNOWN]), code)
    in_hot = NOWHERE if words[node, HOT] < 0 else child_of(hot, hot_slots, int(words[node, HOT]), code)
    words[new, PARENT], words[new, CODE], words[new, LENGTH] = node, code, length
    words[new, KNOWN], words[new, HOT] = in_known, in_hot
    score = 0.0
    if in_hot >= 0:
        score = settings[HOT_WEIGHT] * length / shortest[in_hot]
    elif settings[SCORES_WORDS] != 0:
        score = settings[UNKNOWN_OFFSET] if in_known < 0 else 0.0
        if length > _AVERAGE_WORD:
            score = score * length / _AVERAGE_WORD
    word_scores[new] = score
    return new


@kernel
def longer_text(
    text: int, word: int, texts: Array, text_slots: Array, words: Array, hot_ends: Array, counts: Array
) -> int:
    """Return the text after one more word; the same text if the word is empty."""
    if word == 0:
        return text
    slot = slot_of(text, word, 0, text_slots.size)
    while text_slots[slot] >= 0:
        found = int(text_slots[slot])
        if texts[found, PARENT] == text and texts[found, LAST_WORD] == word:
            return found
        slot = (slot + 1) & (text_slots.size - 1)
    new = counts[TEXTS]
    counts[TEXTS] = new + 1
    text_slots[slot] = new
    in_hot = int(words[word, HOT])
    texts[new, PARENT], texts[new, LAST_WORD], texts[new, STATUS] = text, word, NEW
    texts[new, HOTWORDS] = texts[text, HOTWORDS] + (1 if in_hot > 0 and hot_ends[in_hot] != 0 else 0)
    return new


@kernel
def _log_add(one: float, other: float) -> float:
    if one >= other:
        return one + math.log(1 + math.exp(other - one))
    return other + math.log(1 + math.exp(one - other))


@kernel
def search(
    log_probs: Array,
    labels: Array,
    label_offsets: Array,
    kinds: Array,
    codes: Array,
    code_offsets: Array,
    beams: Array,
    beam_logits: Array,
    candidates: Array,
    logits: Array,
    scores: Array,
    order: Array,
    slots: Array,
    used: Array,
    texts: Array,
    text_scores: Array,
    text_slots: Array,
    words: Array,
    word_scores: Array,
    word_slots: Array,
    known: Array,
    known_slots: Array,
    hot: Array,
    hot_slots: Array,
    shortest: Array,
    hot_ends: Array,
    spans: Array,
    pending: Array,
    settings: Array,
    counts: Array,
) -> int:
    """Go through frames until the last, or until the caller has to do something; return what.

    log_probs: (T, labels). labels[label_offsets[f]:label_offsets[f + 1]]: the labels of frame f that count.
    codes[code_offsets[k]:code_offsets[k + 1]]: the characters of label k. text_scores: what the language model and the
    hotwords give to a text; NEEDS_SCORES asks for those of `pending`. NEEDS_ROOM asks for larger trees.
    """
    while counts[FRAME] < label_offsets.size - 1:
        frame = counts[FRAME]
        low, high = label_offsets[frame], label_offsets[frame + 1]
        if counts[EXTENDED] == 0:
            letters = 0
            for i in range(low, high):
                letters += code_offsets[labels[i] + 1] - code_offsets[labels[i]]
            more = counts[BEAMS] * (high - low)
            if (
                counts[TEXTS] + more > texts.shape[0]
                or counts[WORDS] + counts[BEAMS] * letters > words.shape[0]
                or counts[SPANS] + more > spans.shape[0]
                or more > candidates.shape[0]
            ):
                return NEEDS_ROOM
            counts[CANDIDATES], counts[PENDING], before = 0, 0, counts[WORDS]
            for i in range(low, high):
                _extend(
                    log_probs[frame, labels[i]],
                    int(labels[i]),
                    frame + int(settings[FIRST]),
                    kinds,
                    codes,
                    code_offsets,
                    beams,
                    beam_logits,
                    candidates,
                    logits,
                    slots,
                    used,
                    texts,
                    text_slots,
                    words,
                    word_scores,
                    word_slots,
                    known,
                    known_slots,
                    hot,
                    hot_slots,
                    shortest,
                    hot_ends,
                    settings,
                    counts,
                )
            for row in range(counts[CANDIDATES]):
                slots[used[row]] = -1
                text = candidates[row, TEXT]
                if texts[text, STATUS] == NEW:
                    texts[text, STATUS] = QUEUED
                    pending[counts[PENDING]] = text
                    counts[PENDING] += 1
            counts[EXTENDED] = 1
            if counts[PENDING] > 0 or (settings[ASKS] != 0 and counts[WORDS] > before):
                return NEEDS_SCORES
        counts[EXTENDED] = 0
        _select(
            beams,
            beam_logits,
            candidates,
            logits,
            scores,
            order,
            slots,
            used,
            texts,
            text_scores,
            word_scores,
            spans,
            settings,
            counts,
        )
        counts[FRAME] = frame + 1
    return DONE


@kernel
def _extend(
    log_prob: float,
    label: int,
    frame: int,
    kinds: Array,
    codes: Array,
    code_offsets: Array,
    beams: Array,
    beam_logits: Array,
    candidates: Array,
    logits: Array,
    slots: Array,
    used: Array,
    texts: Array,
    text_slots: Array,
    words: Array,
    word_scores: Array,
    word_slots: Array,
    known: Array,
    known_slots: Array,
    hot: Array,
    hot_slots: Array,
    shortest: Array,
    hot_ends: Array,
    settings: Array,
    counts: Array,
) -> None:
    """Add all beams with one more label to the candidates; equal ones become one."""
    kind = kinds[label]
    for b in range(counts[BEAMS]):
        text, word = int(beams[b, TEXT]), int(beams[b, WORD])
        start, stop, breaks = int(beams[b, START]), int(beams[b, STOP]), int(beams[b, BREAKS])
        closed, closed_end = NOWHERE, NOWHERE
        first, last = code_offsets[label], code_offsets[label + 1]
        must_break = counts[FORCED] != 0 if settings[LEAKS] != 0 else breaks != 0
        if kind == BLANK:
            pass
        elif beams[b, LAST] == label:
            stop = frame + 1
        elif kind == SPACE or (settings[PIECES] != 0 and ((kind & STARTS) != 0 or must_break)):
            if word != 0:
                closed, closed_end = start, stop
            text = longer_text(text, word, texts, text_slots, words, hot_ends, counts)
            word, start, stop, breaks = 0, NOWHERE, NOWHERE, 0
            if kind != SPACE:
                start, stop = frame, frame + 1
                first += (kind & STARTS) // STARTS
                last -= (kind & ENDS) // ENDS
                breaks = (kind & ENDS) // ENDS
                counts[FORCED] = breaks
        else:
            start = frame if start < 0 else start
            stop = frame + 1
        if kind == BLANK or beams[b, LAST] == label or kind == SPACE:
            last = first
        for i in range(first, last):
            word = longer_word(
                word,
                int(codes[i]),
                words,
                word_scores,
                word_slots,
                known,
                known_slots,
                hot,
                hot_slots,
                shortest,
                settings,
                counts,
            )
        logit = beam_logits[b] + log_prob
        slot = slot_of(text, word, label, slots.size)
        while slots[slot] >= 0:
            other = int(slots[slot])
            if candidates[other, TEXT] == text and candidates[other, WORD] == word and candidates[other, LAST] == label:
                break
            slot = (slot + 1) & (slots.size - 1)
        row = int(slots[slot])
        if row < 0:
            row = counts[CANDIDATES]
            counts[CANDIDATES] = row + 1
            slots[slot], used[row] = row, slot
        else:
            logit = _log_add(logits[row], logit)
        logits[row] = logit
        candidates[row, TEXT], candidates[row, WORD], candidates[row, LAST] = text, word, label
        candidates[row, SPAN], candidates[row, START], candidates[row, STOP] = beams[b, SPAN], start, stop
        candidates[row, BREAKS], candidates[row, CLOSED], candidates[row, CLOSED_END] = breaks, closed, closed_end


@kernel
def _is_better(scores: Array, one: int, other: int) -> bool:
    """Return whether a candidate goes before another: by its score; of equal ones, the first."""
    return scores[one] > scores[other] or (scores[one] == scores[other] and one < other)


@kernel
def _sift_down(heap: Array, size: int, place: int, scores: Array) -> None:
    """Restore a heap whose root is the worst candidate, from a place downwards."""
    while True:
        below = 2 * place + 1
        if below >= size:
            return
        if below + 1 < size and _is_better(scores, heap[below], heap[below + 1]):
            below += 1
        if _is_better(scores, heap[below], heap[place]):
            return
        heap[place], heap[below] = heap[below], heap[place]
        place = below


@kernel
def best_of(scores: Array, count: int, least: float, width: int, order: Array) -> int:
    """Write the best candidates with at least a score, best first; return their number, at most `width`."""
    size = 0
    for row in range(count):
        if not scores[row] >= least:
            continue
        if size < width:
            order[size] = row
            size += 1
            if size == width:
                for place in range(size // 2 - 1, -1, -1):
                    _sift_down(order, size, place, scores)
        elif _is_better(scores, row, order[0]):
            order[0] = row
            _sift_down(order, size, 0, scores)
    if size < width:
        for place in range(size // 2 - 1, -1, -1):
            _sift_down(order, size, place, scores)
    for last in range(size - 1, 0, -1):
        order[0], order[last] = order[last], order[0]
        _sift_down(order, last, 0, scores)
    return size


@kernel
def _select(
    beams: Array,
    beam_logits: Array,
    candidates: Array,
    logits: Array,
    scores: Array,
    order: Array,
    slots: Array,
    used: Array,
    texts: Array,
    text_scores: Array,
    word_scores: Array,
    spans: Array,
    settings: Array,
    counts: Array,
) -> None:
    """Make the best candidates the beams of the next frame."""
    count, best = counts[CANDIDATES], -np.inf
    for row in range(count):
        of_text, of_word = text_scores[candidates[row, TEXT]], word_scores[candidates[row, WORD]]
        if settings[HAS_MODEL] != 0:
            scores[row] = logits[row] + (of_text + of_word)
        else:
            scores[row] = (logits[row] + of_text) + of_word
        best = max(best, scores[row])
    kept = best_of(scores, count, best + settings[PRUNE], int(settings[WIDTH]), order)
    history, size = int(settings[HISTORY]), 0
    for rank in range(kept):
        row = order[rank]
        if history > 0 and _is_covered(row, history, candidates, beams, size, slots, used, texts):
            continue
        span = int(candidates[row, SPAN])
        if candidates[row, CLOSED] != NOWHERE or candidates[row, CLOSED_END] != NOWHERE:
            new = counts[SPANS]
            counts[SPANS] = new + 1
            spans[new, 0], spans[new, 1], spans[new, 2] = span, candidates[row, CLOSED], candidates[row, CLOSED_END]
            span = new
        for field in range(CLOSED):
            beams[size, field] = candidates[row, field]
        beams[size, SPAN] = span
        beam_logits[size] = logits[row]
        size += 1
    if history > 0:
        for row in range(size):
            slots[used[row]] = -1
    counts[BEAMS] = size


@kernel
def _is_covered(
    row: int, history: int, candidates: Array, beams: Array, size: int, slots: Array, used: Array, texts: Array
) -> bool:
    """Return whether a better beam ends in the same words, unfinished word and label; else put it into the table."""
    text = int(candidates[row, TEXT])
    word, label = int(candidates[row, WORD]), int(candidates[row, LAST])
    mixed, node = 0, text
    for _ in range(history):
        if node == 0:
            break
        mixed = mixed * 31 + texts[node, LAST_WORD]
        node = int(texts[node, PARENT])
    slot = slot_of(mixed, word, label, slots.size)
    while slots[slot] >= 0:
        other = int(slots[slot])
        if beams[other, WORD] == word and beams[other, LAST] == label:
            one, two, left = text, int(beams[other, TEXT]), history
            while left > 0 and one != two and texts[one, LAST_WORD] == texts[two, LAST_WORD] and one != 0 and two != 0:
                one, two, left = int(texts[one, PARENT]), int(texts[two, PARENT]), left - 1
            if left == 0 or one == two:
                return True
        slot = (slot + 1) & (slots.size - 1)
    slots[slot], used[size] = size, slot
    return False
