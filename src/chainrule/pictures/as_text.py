"""Pictures as lines of text, for language models of pixels: the grey of each pixel as a whole number, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import UInt8
    from numpy import ndarray

WHITE = 255


def check_levels(levels: int) -> None:
    """Raises SettingError."""
    if not 2 <= levels <= 256:
        raise SettingError(f"levels is {levels}; expected 2 to 256 shades of grey")


def line_of(pixels: UInt8[ndarray, "H W 1"], levels: int) -> str:
    """Each pixel's shade, 0 (black) to levels - 1, separated by spaces."""
    return " ".join(map(str, (pixels.astype(np.int64).ravel() * levels >> 8).tolist()))


def pixels_of(line: str, columns: int, levels: int, place: str) -> UInt8[ndarray, "H W 1"]:
    """The picture of a line; what is missing in its last row is white. Raises TextError that begins with the place."""
    words = line.split()
    odd = next((word for word in words if not (word.isascii() and word.isdigit() and int(word) < levels)), None)
    if odd is not None:
        raise TextError(f"{place}: found {odd!r}; expected the shades of pixels, 0 to {levels - 1}")
    if not words:
        raise TextError(f"{place}: there are no pixels in it")
    shades = np.array([int(word) for word in words], np.int64)
    filled = np.full(-(-len(shades) // columns) * columns, WHITE, np.uint8)
    filled[: len(shades)] = (shades * WHITE + (levels - 1) // 2) // (levels - 1)
    return filled.reshape(-1, columns, 1)


def side_by_side(pictures: Sequence[UInt8[ndarray, "H W 1"]], gap: int = 1) -> UInt8[ndarray, "H W 1"]:
    """Pictures of one width on a white ground, in rows of about as many as there are rows."""
    across = int(np.ceil(np.sqrt(len(pictures))))
    height, width = max(picture.shape[0] for picture in pictures), pictures[0].shape[1]
    rows = -(-len(pictures) // across)
    sheet = np.full((rows * (height + gap) - gap, across * (width + gap) - gap, 1), WHITE, np.uint8)
    for i, picture in enumerate(pictures):
        row, column = (i // across) * (height + gap), (i % across) * (width + gap)
        sheet[row : row + picture.shape[0], column : column + width] = picture
    return sheet
