"""Records as JSON: ASCII only, since U+2028 and the like break readers of lines; parts of a record may be JSON already.

orjson writes numbers many times faster than `json`, and the same ones: the shortest that read back equal.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import orjson

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


def json_numbers(numbers: np.ndarray) -> list[bytes]:
    """The JSON of each number of a vector."""
    data = orjson.dumps(np.ascontiguousarray(numbers), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    return data.split(b",") if data else []


def json_fragment(data: bytes) -> Any:
    """What is JSON already, as a value for `json_bytes`."""
    return orjson.Fragment(data)
