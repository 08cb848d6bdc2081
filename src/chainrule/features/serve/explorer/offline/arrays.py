"""A record and arrays as one text, for a page: arrays by bytes of the same place, compressed, in base64.

The bytes of an array's numbers are stored place by place, all first bytes before all second ones, since high bytes are
much alike. Log-probabilities are whole numbers of 2^-16 nats below the highest one, in three bytes, or numbers of a
list where an order has few different ones, as quantised tables do.
"""

from __future__ import annotations

import base64
import json
import math
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Float, Shaped
    from numpy import ndarray

    Arrays = dict[str, ndarray]
    Json = dict[str, Any]

_STEP = 2.0**-16  # nats between two stored log-probabilities
_NEVER = (1 << 24) - 1  # stands for minus infinity
_FEW = 1 << 8  # different numbers that a list holds


def packed(record: Mapping[str, Any], arrays: Mapping[str, ndarray]) -> str:
    """Return the record and the arrays, which the page's `arrays.js` reads."""
    named, parts, at = {}, [], 0
    for name, array in arrays.items():
        data = _planes(array)
        named[name] = [array.dtype.kind, array.itemsize, array.size, at]
        parts.append(data)
        at += len(data)
    head = json.dumps({"record": record, "arrays": named}, separators=(",", ":"), ensure_ascii=False).encode()
    # A whole number of 4 bytes, little-endian, says how long the head is.
    return base64.b64encode(zlib.compress(b"".join([len(head).to_bytes(4, "little"), head, *parts]), 9)).decode()


def _planes(array: Shaped[ndarray, "*shape"]) -> bytes:
    whole = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    return whole.reshape(-1).view(np.uint8).reshape(-1, array.itemsize).T.tobytes()


def whole_numbers(numbers: Shaped[ndarray, " n"]) -> Shaped[ndarray, " n"]:
    """Return numbers from 0 on in the fewest bytes."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def store_log_probs(arrays: Arrays, name: str, values: Float[ndarray, " n"]) -> Json:
    """Add log-probabilities, in nats, to the arrays, and return what the page needs to read them.

    They are at most 2^-17 nats from the given ones.
    """
    distinct = np.unique(values)
    if len(distinct) <= _FEW:
        arrays[name] = np.searchsorted(distinct, values).astype(np.uint8)
        arrays[f"{name}_list"] = distinct.astype(np.float32)
        return {"form": "list"}
    finite = values[np.isfinite(values)].astype(np.float64)
    top = float(finite.max(initial=0.0))
    if (top - finite.min(initial=0.0)) / _STEP >= _NEVER:
        arrays[name] = values.astype(np.float32)
        return {"form": "float"}
    codes = np.full(len(values), _NEVER, np.uint32)
    codes[np.isfinite(values)] = np.rint((top - finite) / _STEP).astype(np.uint32)
    low = codes.astype("<u4").view(np.uint8).reshape(-1, 4)
    arrays[name] = np.ascontiguousarray(low[:, :3]).view("V3").reshape(-1)
    return {"form": "steps", "top": top, "step": _STEP}


def finite_or_none(values: Float[ndarray, " n"]) -> list[float | None]:
    """Return numbers for a record, with None for those that are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values.tolist()]
