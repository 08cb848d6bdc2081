"""A picture in memory, with a label or without; scaling it to the size that a network reads; pictures as lines of text.

Lines of text are for language models of pixels: the grey of each pixel as a whole number, row by row.
Legend: H height, W width, in pixels; C channels: 3 for red, green, blue, or 1 for grey.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from chainrule.errors import SettingError, TextError
from chainrule.features.vision.pictures.codec import decode, resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float64, UInt8
    from numpy import ndarray

Fit = Literal["crop", "stretch", "pad"]
Colours = Literal["rgb", "grey"]
UNITS = ("picture", "pixel", "box")
_LUMA = np.array([19595, 38470, 7471])  # of ITU-R BT.601, in parts of 65,536


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels, and the name that messages give them. As a str, it is its size and a digest of its pixels."""

    pixels: UInt8[ndarray, "H W C"] = field(repr=False)
    name: str = "a picture"

    def __str__(self) -> str:
        height, width, _ = self.pixels.shape
        digest = hashlib.sha256(np.ascontiguousarray(self.pixels).data).hexdigest()
        return f"a picture of {width} x {height} pixels, {digest}"


class LabelledPicture(NamedTuple):
    """A picture and its label; or as `UnitLabels` those of its pixels, row by row; or as `BoxLabels` those of boxes.

    good:  LabelledPicture(chainrule.as_picture("cat.jpg"), ("cat",))
    """

    input: Picture
    labels: Sequence[str]
    place: str = "a labelled picture"  # the file, for messages


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The size and colours that a network reads, and how a picture of another shape is brought to them.

    fit: crop: scaled until it fills the frame, and what stands over is cut off on both sides; stretch: each side scaled
    by itself; pad: scaled until all of it is within the frame, the rest black. share: the central share of the scaled
    picture that crop takes: 0.875 is 224 of 256 pixels.
    """

    height: int
    width: int
    fit: Fit = "crop"
    colours: Colours = "rgb"
    share: float = 1.0

    @property
    def channels(self) -> int:
        return 1 if self.colours == "grey" else 3

    def kept(self, height: int, width: int) -> tuple[slice, slice]:
        """Return the rows and columns of a picture that are kept."""
        if self.fit != "crop" or (height, width) == (self.height, self.width):
            return slice(0, height), slice(0, width)
        scale = max(self.height / height, self.width / width)
        rows, columns = (
            _middle(min(side, max(1, round(self.share * wanted / scale))), side)
            for side, wanted in ((height, self.height), (width, self.width))
        )
        return rows, columns

    def covered(self, height: int, width: int) -> tuple[slice, slice]:
        """Return the rows and columns of the frame that hold the picture."""
        if self.fit != "pad" or (height, width) == (self.height, self.width):
            return slice(0, self.height), slice(0, self.width)
        scale = min(self.height / height, self.width / width)
        rows, columns = (
            _middle(max(1, round(side * scale)), wanted)
            for side, wanted in ((height, self.height), (width, self.width))
        )
        return rows, columns

    def mapping(self, height: int, width: int) -> tuple[Float64[ndarray, 4], Float64[ndarray, 4]]:
        """Return the factors and offsets that map left, top, right, bottom from the picture to the frame."""
        scales, offsets = [], []
        for kept, covered in zip(self.kept(height, width)[::-1], self.covered(height, width)[::-1], strict=True):
            scales.append((covered.stop - covered.start) / (kept.stop - kept.start))
            offsets.append(covered.start - kept.start * scales[-1])
        return np.array(scales * 2), np.array(offsets * 2)


def as_picture(given: Picture | str | os.PathLike[str] | UInt8[ndarray, "H W C"]) -> Picture:
    """Return a picture from the path of a JPEG or PNG file, or from pixels: bytes, H x W, or H x W x 1 or 3.

    Raises TextError that names the file; TypeError.
    """
    if isinstance(given, Picture):
        return given
    if isinstance(given, str | os.PathLike):
        return Picture(decode(given), os.fspath(given))
    pixels: Any = given
    if not isinstance(pixels, np.ndarray) or pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise TypeError(
            f"this takes the path of a picture, or its pixels as a NumPy array of uint8; found {_kind(given)}"
        )
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.shape[2] not in (1, 3) or not pixels.size:
        raise TextError(f"the pixels have the shape {pixels.shape}; expected height, width, and 1 or 3 colours")
    return Picture(pixels)


def fit_to_frame(picture: Picture, frame: Frame) -> UInt8[ndarray, "height width C"]:
    """Return the pixels of a picture as a network reads them; unchanged if they have that size and these colours."""
    pixels = _coloured(picture.pixels, frame.colours)
    height, width = pixels.shape[:2]
    if (height, width) == (frame.height, frame.width):
        return pixels
    rows, columns = frame.covered(height, width)
    kept = resize(pixels[frame.kept(height, width)], rows.stop - rows.start, columns.stop - columns.start)
    if kept.shape[:2] == (frame.height, frame.width):
        return kept
    result = np.zeros((frame.height, frame.width, pixels.shape[2]), np.uint8)
    result[rows, columns] = kept
    return result


def _middle(part: int, whole: int) -> slice:
    first = (whole - part) // 2
    return slice(first, first + part)


def _coloured(pixels: UInt8[ndarray, "H W C"], colours: Colours) -> UInt8[ndarray, "H W C"]:
    if colours == "grey" and pixels.shape[2] == 3:
        return ((pixels.astype(np.int64) @ _LUMA + (1 << 15)) >> 16).astype(np.uint8)[..., None]
    if colours == "rgb" and pixels.shape[2] == 1:
        return np.repeat(pixels, 3, 2)
    return pixels


def _kind(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with {value.ndim} dimensions"
    return repr(value)[:80]


WHITE = 255


def check_levels(levels: int) -> None:
    """Raise SettingError if the number of shades is out of bounds."""
    if not 2 <= levels <= 256:
        raise SettingError(f"levels is {levels}; expected 2 to 256 shades of grey")


def line_of(pixels: UInt8[ndarray, "H W 1"], levels: int) -> str:
    """Return each pixel's shade, 0 (black) to levels - 1, separated by spaces."""
    return " ".join(map(str, (pixels.astype(np.int64).ravel() * levels >> 8).tolist()))


def pixels_of(line: str, columns: int, levels: int, place: str) -> UInt8[ndarray, "H W 1"]:
    """Return the picture of a line; what is missing in its last row is white.

    Raises TextError that begins with the place.
    """
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
    """Return pictures of one width on a white ground, in a grid with about as many rows as columns."""
    across = int(np.ceil(np.sqrt(len(pictures))))
    height, width = max(picture.shape[0] for picture in pictures), pictures[0].shape[1]
    rows = -(-len(pictures) // across)
    sheet = np.full((rows * (height + gap) - gap, across * (width + gap) - gap, 1), WHITE, np.uint8)
    for i, picture in enumerate(pictures):
        row, column = (i // across) * (height + gap), (i % across) * (width + gap)
        sheet[row : row + picture.shape[0], column : column + width] = picture
    return sheet
