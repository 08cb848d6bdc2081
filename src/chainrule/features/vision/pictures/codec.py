"""Decodes JPEG and PNG files by Pillow, the one file that imports it: every picture upright, in 8 bits, red green blue.

    alpha         laid on white, as a page shows it; so is a colour of a palette that is transparent
    16 bits       the high 8 bits
    EXIF          turned upright as a viewer shows it; a damaged orientation is none
    animated      refused, since it is not said which frame is meant
    giant         refused by its header, before anything is decoded

Legend: H height, W width, in pixels; the 3 of colours are red, green, blue.
"""

from __future__ import annotations

import os
import warnings
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.errors import SettingError, TextError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import UInt8
    from numpy import ndarray

MOST_PIXELS = 1 << 26  # of a picture that is decoded: 67 million, 200 MB
SUFFIXES = (".jpg", ".jpeg", ".png")
_FORMATS = ("JPEG", "PNG")


def decode(path: str | os.PathLike[str]) -> UInt8[ndarray, "H W 3"]:
    """Return the pixels of a file. Raises TextError that names it; SettingError without Pillow."""
    return _decoded(path, os.fspath(path), lambda file: _as_rgb(_upright(file)))


def decode_bytes(data: bytes, name: str, most_pixels: int = MOST_PIXELS) -> UInt8[ndarray, "H W 3"]:
    """Return the pixels of a file's bytes. name: its name, for messages. Raises as `decode` does."""
    return _decoded(BytesIO(data), name, lambda file: _as_rgb(_upright(file)), most_pixels)


def pixel_count(data: bytes, name: str) -> int:
    """Return the number of pixels by a file's header; nothing is decoded. name: its name, for messages.

    Raises as `decode` does.
    """
    width, height = _read(BytesIO(data), name, lambda file: file.size)
    return int(width * height)


def decode_values(path: str | os.PathLike[str]) -> UInt8[ndarray, "H W"]:
    """Return the values of a PNG file in grey or with a palette, whose colours are ignored. Raises as `decode` does."""
    return _decoded(path, os.fspath(path), _with_values)


def _decoded(
    source: str | os.PathLike[str] | BytesIO, path: str, decode: Callable[[Any], Any], most_pixels: int = MOST_PIXELS
) -> UInt8[ndarray, "H W ..."]:
    """Return the pixels of a file. decode: a function that gives them from Pillow's image. Raises as `_read` does."""
    pixels: UInt8[ndarray, "H W ..."] = _read(
        source, path, lambda file: np.ascontiguousarray(np.asarray(decode(file), np.uint8)), most_pixels
    )
    return pixels


def _read(
    source: str | os.PathLike[str] | BytesIO, path: str, read: Callable[[Any], Any], most_pixels: int = MOST_PIXELS
) -> Any:
    """Return the result of reading an opened file.

    path: its name. Raises TextError that names it; SettingError without Pillow.
    """
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, on odd metadata and large sizes, which are checked below
            with pillow.Image.open(source, formats=_FORMATS) as file:
                width, height = file.size
                if width * height > most_pixels:
                    raise TextError(
                        f"{path}: has {width:,} x {height:,} pixels, more than the {most_pixels:,} that are decoded; "
                        "make it smaller, or leave it out"
                    )
                if getattr(file, "is_animated", False) and file.format == "PNG":
                    raise TextError(
                        f"{path}: is an animated picture of {file.n_frames} frames; expected a single one: save the "
                        "frame that is meant"
                    )
                return read(file)
    except TextError as error:
        raise error if path in str(error) else TextError(f"{path}: {error}") from None
    except pillow.Image.DecompressionBombError as error:
        raise TextError(f"{path}: is a very large picture ({error}); make it smaller, or leave it out") from error
    except FileNotFoundError as error:
        raise TextError(f"{path}: there is no such file") from error
    except pillow.UnidentifiedImageError as error:
        raise TextError(f"{path}: is not a JPEG or PNG picture, or its beginning is damaged") from error
    except MemoryError as error:
        raise TextError(f"{path}: does not fit into memory; make it smaller, or leave it out") from error
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        raise TextError(f"{path}: cannot be read as a picture: {reason}") from error
    except Exception as error:  # Pillow's readers raise many kinds on damaged files
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TextError(f"{path}: is a damaged picture: {reason}") from error


def resize(pixels: UInt8[ndarray, "H W C"], height: int, width: int) -> UInt8[ndarray, "height width C"]:
    """Return pixels at another size, by bicubic interpolation that averages where it makes smaller."""
    if pixels.shape[:2] == (height, width):
        return pixels
    image = _pillow().Image
    channels = [
        np.asarray(image.fromarray(channel).resize((width, height), image.Resampling.BICUBIC))
        for channel in np.ascontiguousarray(np.moveaxis(pixels, 2, 0))
    ]
    return np.stack(channels, 2)


def _with_values(file: Any) -> Any:
    """Return the values of a PNG in grey or with a palette. Raises TextError."""
    if file.format != "PNG" or file.mode not in ("P", "L", "1"):
        raise TextError(
            f"is a {file.format} of mode {file.mode}; expected a PNG in grey or with a palette, 8 bits a pixel"
        )
    file.load()
    return np.asarray(file).astype(np.uint8)


def encode_png(pixels: UInt8[ndarray, "H W C"]) -> bytes:
    """Return a PNG file of pixels with one channel, grey, or three."""
    file = BytesIO()
    _pillow().Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(file, "PNG")
    return file.getvalue()


def _upright(file: Any) -> Any:
    """Return a picture turned or mirrored as its EXIF orientation says."""
    file.load()
    try:
        return _pillow().ImageOps.exif_transpose(file)
    except Exception:  # damaged EXIF data say nothing
        return file


def _as_rgb(picture: Any) -> Any:
    """Return a picture of any mode of Pillow's in RGB."""
    image = _pillow().Image
    if picture.mode.startswith("I"):  # 16 bits a pixel, perhaps held in 32, which Pillow would clip at 255
        wide = np.asarray(picture).astype(np.int64)
        return image.fromarray((wide >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        ground = image.new("RGBA", picture.size, "white")
        return image.alpha_composite(ground, picture).convert("RGB")
    return picture.convert("RGB")


def _pillow() -> Any:
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise SettingError("pictures need Pillow, which is not installed: pip install 'chainrule[pictures]'") from error
    return PIL
