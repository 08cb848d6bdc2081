"""Matrices whose rows kernels read in whole lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.lanes import LANES, padded

if TYPE_CHECKING:
    from jaxtyping import Float32
    from numpy import ndarray


def zero_rows(rows: int, width: int) -> Float32[ndarray, "rows padded"]:
    """Zeros, as wide as whole lanes, each of which lies in one line of the cache."""
    size = rows * padded(width)
    room = np.zeros(size + LANES, np.float32)
    start = -(room.ctypes.data // room.itemsize) % LANES
    return room[start : start + size].reshape(rows, padded(width))


def random_rows(rows: int, width: int, bound: float, rng: np.random.Generator) -> Float32[ndarray, "rows padded"]:
    """Uniform between -bound and bound; the numbers past the width are 0."""
    drawn = zero_rows(rows, width)
    for start in range(0, rows, 1 << 14):
        part = drawn[start : start + (1 << 14), :width]
        part[:] = (2 * rng.random(part.shape, np.float32) - 1) * np.float32(bound)
    return drawn
