"""Compiled scoring with a hashed model; its states are those of `word_query_kernels.py`, one in each row."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import array_at
from chainrule.base.jit import allocating_kernel, kernel
from chainrule.ngram.kenlm.probing_kernels import STATE_SIZE
from chainrule.ngram.kenlm.word_query_kernels import LOG10_OF_E, extend
from chainrule.protocol import BEGIN, END, UNKNOWN

Array = NDArray[Any]

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


@allocating_kernel
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
