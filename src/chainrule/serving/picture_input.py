"""Pictures in requests: base64 data of PNG or JPEG files. No path and no address is ever opened."""

from __future__ import annotations

import base64
import binascii
import re

from chainrule.errors import TextError
from chainrule.pictures.decoding import decoded_bytes
from chainrule.pictures.picture import Picture
from chainrule.serving.api_error import ApiError

_DATA_ADDRESS = re.compile(r"data:image/(?:png|jpeg);base64,")  # as web pages and OpenAI's clients write pictures


def picture_of(data: str, number: int, most_pixels: int) -> Picture:
    """Decodes a picture. number: its place among the request's. Raises ApiError; SettingError without Pillow."""
    name = f"picture {number}"
    begin = match.end() if (match := _DATA_ADDRESS.match(data)) else 0
    try:
        file = base64.b64decode(data[begin:].encode(), validate=True)
    except (binascii.Error, ValueError):
        raise ApiError(400, f"{name}: is not base64; send the data of a PNG or JPEG file", param="input") from None
    try:
        return Picture(decoded_bytes(file, name, most_pixels), name)
    except TextError as error:
        raise ApiError(400, str(error), param="input") from None
