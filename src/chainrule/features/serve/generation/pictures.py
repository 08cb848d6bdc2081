"""Pictures of requests: base64 data of PNG or JPEG files. No path and no address is ever opened."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

from chainrule.errors import TextError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.vision.pictures.codec import decode_bytes, pixel_count
from chainrule.features.vision.pictures.picture import Picture

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATA_ADDRESS = re.compile(r"data:image/(?:png|jpeg);base64,")  # as web pages and OpenAI's clients write pictures


def picture_of(data: str, number: int, most_pixels: int, param: str = "input") -> Picture:
    """Decode a picture.

    number: its index among the request's pictures, from 0. param: the field that has them.
    Raises ApiError; SettingError without Pillow.
    """
    name, file = _name(number), _file_of(data, number, param)
    try:
        return Picture(decode_bytes(file, name, most_pixels), name)
    except TextError as error:
        raise ApiError(400, str(error), param=param) from None


def check_pixels(pictures: Sequence[str], most_pixels: int, param: str = "input") -> None:
    """Raise ApiError if pictures have more pixels together, by their headers; SettingError without Pillow."""
    pixels = 0
    for number, data in enumerate(pictures):
        try:
            pixels += pixel_count(_file_of(data, number, param), _name(number))
        except TextError as error:
            raise ApiError(400, str(error), param=param) from None
    if pixels > most_pixels:
        message = f"the pictures have {pixels:,} pixels together; expected at most {most_pixels:,}"
        raise ApiError(400, f"{message}. Send fewer at a time, or make them smaller", param=param, code="too_large")


def _file_of(data: str, number: int, param: str) -> bytes:
    """Return the bytes of a file in base64. Raises ApiError."""
    begin = match.end() if (match := _DATA_ADDRESS.match(data)) else 0
    try:
        return base64.b64decode(data[begin:].encode(), validate=True)
    except (binascii.Error, ValueError):
        found = (
            "is an address, not base64, and is not opened" if data.startswith(("http:", "https:")) else "is not base64"
        )
        message = f"{_name(number)}: {found}; send the data of a PNG or JPEG file"
        raise ApiError(400, message, param=param) from None


def _name(number: int) -> str:
    return f"picture {number}"
