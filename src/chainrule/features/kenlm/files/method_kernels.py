"""Compiled methods of the module's models, which Python calls as it calls functions written in C.

Such a method gets addresses: of the model; of its arguments' addresses; how many of these have no name; and of a tuple
of the names of the others, or 0. It returns the address of its result, or 0 where it has raised an error. Only the
usual call is compiled; any other goes to the method in Python, which says what is wrong with it.

Objects of CPython begin with a count of references and the address of their type. In a model, the address of its record
follows, an int; in a state, the address of its numbers. `methods.py` checks both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chainrule.base.intrinsics import FLOAT, INTEGER, array_at, c_call
from chainrule.base.jit import c_kernel, kernel
from chainrule.features.kenlm.files.binary_kernels import CALLS, RECORD_SIZE, STATE_SIZE
from chainrule.features.kenlm.files.word_query_kernels import extend, id_of_word, score_letters
from chainrule.protocol import UNKNOWN

Array = NDArray[Any]

# Fields of a record from CALLS on: the addresses of types and of the methods in Python, and room for one number.
STATE_TYPE, TEXT_TYPE, RESULT_TYPE, SCORE_WORD, FULLY_SCORE_WORD, SCORE, SIZE, SCRATCH = range(CALLS, CALLS + 8)

_float = c_call("PyFloat_FromDouble", INTEGER, FLOAT)
_whole = c_call("PyLong_FromLongLong", INTEGER, INTEGER)
_truth = c_call("PyBool_FromLong", INTEGER, INTEGER)
_number = c_call("PyLong_AsLongLong", INTEGER, INTEGER)
_letters = c_call("PyUnicode_AsUTF8AndSize", INTEGER, INTEGER, INTEGER)
_new = c_call("PyType_GenericAlloc", INTEGER, INTEGER, INTEGER)
_set = c_call("PyTuple_SetItem", INTEGER, INTEGER, INTEGER, INTEGER)
_bound = c_call("PyMethod_New", INTEGER, INTEGER, INTEGER)
_call = c_call("PyObject_Vectorcall", INTEGER, INTEGER, INTEGER, INTEGER, INTEGER)
_release = c_call("Py_DecRef", INTEGER, INTEGER)
TYPE, CONTENT = 1, 2  # of an object's numbers
_BYTES = 8


@c_kernel
def score_word(model: int, arguments: int, count: int, names: int) -> int:
    """`Model.BaseScore`."""
    is_scored, result, score, _, _ = _extended(model, arguments, count, names, SCORE_WORD)
    return _float(score) if is_scored else result


@c_kernel
def fully_score_word(model: int, arguments: int, count: int, names: int) -> int:
    """`Model.BaseFullScore`."""
    is_scored, result, score, length, is_unknown = _extended(model, arguments, count, names, FULLY_SCORE_WORD)
    if not is_scored:
        return result
    record = array_at(_number(array_at(model, 3, np.int64)[CONTENT]), RECORD_SIZE, np.int64)
    result = _new(record[RESULT_TYPE], 3)
    if result != 0:
        _set(result, 0, _float(score))
        _set(result, 1, _whole(length))
        _set(result, 2, _truth(np.int64(is_unknown)))
    return result


@kernel
def _extended(model: int, arguments: int, count: int, names: int, method: int) -> tuple[bool, int, float, int, bool]:
    """Score a word after a state, and write the state after it, if the arguments are these.

    method: the field of the method in Python, which takes any others. Returns whether the word was scored; if not, the
    result for Python; and log10 P of the word, the length of the n-gram that matched, and whether the word is unknown.
    """
    address = _number(array_at(model, 3, np.int64)[CONTENT])
    if address == -1:  # the model was never opened; Python has raised SystemError
        return False, 0, 0.0, 0, False
    record = array_at(address, RECORD_SIZE, np.int64)
    if not _is_usual(record, arguments, count, names):
        return False, _in_python(record[method], model, arguments, count, names), 0.0, 0, False
    given = array_at(arguments, 3, np.int64)
    word = _id_of(address, given[1])
    if word < 0:
        return False, 0, 0.0, 0, False
    score, length = extend(address, word, _content(given[0]), _content(given[2]))
    return True, 0, score, length, word == UNKNOWN


@c_kernel
def score(model: int, arguments: int, count: int, names: int) -> int:
    """`Model.score`, of a sentence alone."""
    address = _number(array_at(model, 3, np.int64)[CONTENT])
    if address == -1:  # the model was never opened; Python has raised SystemError
        return 0
    record = array_at(address, RECORD_SIZE, np.int64)
    if count != 1 or names != 0:
        return _in_python(record[SCORE], model, arguments, count, names)
    sentence = array_at(arguments, 1, np.int64)[0]
    if array_at(sentence, 3, np.int64)[TYPE] != record[TEXT_TYPE]:
        return _in_python(record[SCORE], model, arguments, count, names)
    letters = _letters(sentence, address + SIZE * _BYTES)
    if letters == 0:
        return 0
    for i in range(STATE_SIZE):
        record[SCRATCH + i] = 0
    text = array_at(letters, record[SIZE], np.uint8)
    return _float(score_letters(address, text, True, True, address + SCRATCH * _BYTES))


@kernel
def _is_usual(record: Array, arguments: int, count: int, names: int) -> bool:
    """Whether the arguments are a state, a word and a state."""
    if count != 3 or names != 0:
        return False
    given = array_at(arguments, 3, np.int64)
    return (
        array_at(given[0], 3, np.int64)[TYPE] == record[STATE_TYPE]
        and array_at(given[1], 3, np.int64)[TYPE] == record[TEXT_TYPE]
        and array_at(given[2], 3, np.int64)[TYPE] == record[STATE_TYPE]
    )


@kernel
def _content(state: int) -> int:
    return array_at(state, 3, np.int64)[CONTENT]


@kernel
def _id_of(address: int, word: int) -> int:
    """The id of a word, an object; -1 where it is no UTF-8, after an error was raised."""
    letters = _letters(word, address + SIZE * _BYTES)
    if letters == 0:
        return -1
    size = array_at(address, RECORD_SIZE, np.int64)[SIZE]
    return id_of_word(address, array_at(letters, size, np.uint8))


@kernel
def _in_python(function: int, model: int, arguments: int, count: int, names: int) -> int:
    method = _bound(function, model)
    if method == 0:
        return 0
    result = _call(method, arguments, count, names)
    _release(method)
    return result
