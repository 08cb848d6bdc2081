"""Records as JSON: ASCII only, since U+2028 and the like break readers of lines; parts of a record may be JSON already.

orjson writes numbers many times faster than `json`, and the same ones: the shortest that read back equal.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from chainrule.text.corpus.block import byte_array

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64, UInt8
    from numpy import ndarray

_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


def json_bytes(record: Any) -> bytes:
    """The JSON of a record, in which some values may be of `json_fragment`."""
    data = orjson.dumps(record)
    if data.isascii():
        return data
    return _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], data.decode()).encode()


def json_text(text: str) -> bytes:
    """The JSON of a text."""
    return json.dumps(text).encode()


def json_numbers(
    numbers: Float64[ndarray, " N"], spare: int
) -> tuple[UInt8[ndarray, " bytes"], Int64[ndarray, " N+1"]]:
    """The JSON of numbers, a byte between two of them; where each begins, and one byte after the last ends.

    spare: bytes after all of them.
    """
    data = orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)
    array = byte_array(data + bytes(spare))
    if not numbers.size:
        return array, np.ones(1, np.int64)
    return array, np.concatenate([[0], np.flatnonzero(array == ord(",")), [len(data) - 1]]) + 1


def json_fragment(data: bytes) -> Any:
    """What is JSON already, as a value for `json_bytes`."""
    return orjson.Fragment(data)
