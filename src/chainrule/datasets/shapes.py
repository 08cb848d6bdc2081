"""Pictures of a circle, a square or a triangle, of any size and colour, anywhere on a ground of another colour."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, UInt8
    from numpy import ndarray

    from chainrule.datasets.chance import Chance

SHAPES = ("circle", "square", "triangle")
SIDE = 32  # pixels
_SMALLEST, _LARGEST = 6, 13  # half of the width of a shape
_LEAST_CONTRAST = 200  # sum of the differences of red, green and blue


def shape(chance: Chance, name: str) -> UInt8[ndarray, "row column channel"]:
    """A picture of a shape."""
    half = _SMALLEST + chance.below(_LARGEST - _SMALLEST + 1)
    x, y = (half + chance.below(SIDE - 2 * half) for _ in range(2))
    ground, colour = _colour(chance), _colour(chance)
    while np.abs(ground - colour).sum() < _LEAST_CONTRAST:
        colour = _colour(chance)
    picture = np.where(covered(name, x, y, half)[:, :, None], colour, ground)
    return picture.astype(np.uint8)


def _colour(chance: Chance) -> ndarray:
    return np.array([chance.below(256) for _ in range(3)])


def covered(name: str, x: int, y: int, half: int) -> Bool[ndarray, "row column"]:
    """Which pixels a shape covers. x, y: its centre. half: half of its width."""
    rows, columns = np.mgrid[:SIDE, :SIDE]
    down, right = rows - y, columns - x
    if name == "circle":
        return down**2 + right**2 <= half**2
    within = np.abs(down) <= half
    if name == "square":
        return within & (np.abs(right) <= half)
    return within & (2 * np.abs(right) <= down + half)  # a triangle, its tip above
