"""bfloat16 for NumPy, which has no such type: an array of it holds the upper 16 bits of float32 numbers.

The type has a field of its name, so that it is told apart from other 16-bit numbers, and rows can be picked, joined and
transposed as those of any array. Nothing is computed in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray

BFLOAT16 = np.dtype([("bfloat16", "<u2")])
_SIGN, _INFINITE = 0x8000, 0x7F80


def widen(array: ndarray) -> Float32[ndarray, " numbers"]:
    """Return numbers in bfloat16 or float16 as the same numbers in float32. A float32 array is returned unchanged."""
    if array.dtype == BFLOAT16:
        return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
    return array.astype(np.float32, copy=False)


def negate(array: ndarray) -> ndarray:
    """Return the numbers with the other sign, in the same type."""
    if array.dtype == BFLOAT16:
        return (array.view(np.uint16) ^ np.uint16(_SIGN)).view(BFLOAT16)
    return -array


def has_nan(array: ndarray) -> bool:
    """Return whether a number is NaN; integers never are."""
    if array.dtype == BFLOAT16:
        return bool(((array.view(np.uint16) & (_SIGN - 1)) > _INFINITE).any())
    return array.dtype.kind == "f" and bool(array.size) and bool(np.isnan(array.min()))  # a minimum of NaN is NaN, too
