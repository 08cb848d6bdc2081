"""Arrays as bytes, which is what Spark moves between tasks without looking into them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy import ndarray

_KINDS = [np.dtype(kind) for kind in (np.int32, np.int64, np.float32, np.float64)]


def pack(*arrays: ndarray[Any, Any]) -> bytes:
    """Arrays of one dimension as bytes: how many there are, the kind and the size of each, and their numbers."""
    header = [len(arrays), *(number for array in arrays for number in (_KINDS.index(array.dtype), array.size))]
    return b"".join(np.ascontiguousarray(array).data for array in [np.array(header, np.int64), *arrays])


def unpack(data: bytes | bytearray) -> list[ndarray[Any, Any]]:
    """The arrays that `pack` packed; they can be written to, and lie in `data` where that can."""
    room = data if isinstance(data, bytearray) else bytearray(data)
    (number,) = np.frombuffer(room, np.int64, 1).tolist()
    header = np.frombuffer(room, np.int64, 2 * number, 8).tolist()
    arrays, place = [], 8 * (1 + 2 * number)
    for kind, size in zip(header[::2], header[1::2], strict=True):
        arrays.append(np.frombuffer(room, _KINDS[kind], size, place))
        place += arrays[-1].nbytes
    return arrays
