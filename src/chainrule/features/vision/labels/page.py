"""The page of pictures with the labels that a network gives them or their pixels, without other files."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.drawing.colours import COLOURS
from chainrule.drawing.pages import render
from chainrule.features.vision.pictures.codec import encode_png
from chainrule.features.vision.pictures.picture import as_picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float, Float32, UInt8
    from numpy import ndarray

    from chainrule.features.classify.classification import Predicted

_PALETTE = [name for name in COLOURS if name.startswith("line-")]
_SHOWN, _LARGEST_PICTURE = 400, 8  # pixels of the longer side, about; the most that a pixel is magnified
_TINT = 0.65  # of a label's colour, laid on the picture
_LEAST_SHARE = 5e-4  # a share that is shown


class DrawnPicture(NamedTuple):
    """A picture as it is drawn. log_probs: those of the labels of each pixel, or of the whole picture."""

    name: str
    pixels: UInt8[ndarray, "H W C"]
    log_probs: Float32[ndarray, "units labels"]


def labelled_pictures_page(title: str, names: Sequence[str], pictures: Sequence[DrawnPicture]) -> str:
    """Return a self-contained HTML page: each picture, overlaid with the colours of its pixels' labels, and how sure
    the network is.

    names: those of labels, each of which has the same colour on all pictures.
    """
    keys = [(name, _PALETTE[i % len(_PALETTE)]) for i, name in enumerate(names)]
    colours = np.array([_rgb(COLOURS[key].light) for _, key in keys], np.float64)
    return render(
        "labelled_pictures.html.j2",
        title=title,
        legend=[(name, COLOURS[key].light) for name, key in keys],
        pictures=[_picture_values(picture, names, colours) for picture in pictures],
    )


def _picture_values(
    picture: DrawnPicture, names: Sequence[str], colours: Float[ndarray, "labels 3"]
) -> dict[str, object]:
    """Return the values that the template needs for a picture."""
    height, width, _ = picture.pixels.shape
    probabilities = np.exp(picture.log_probs.astype(np.float64))
    maps = [("the picture", _data_uri(picture.pixels))]
    if len(probabilities) == height * width > 1:
        labels = probabilities.argmax(1).reshape(height, width)
        laid = (1 - _TINT) * picture.pixels.mean(2, keepdims=True) + _TINT * colours[labels]
        certainty = 255 * probabilities.max(1).reshape(height, width, 1)
        maps.append(("labels", _data_uri(laid.round().astype(np.uint8))))
        maps.append(("probability of the label: black 0, white 1", _data_uri(certainty.round().astype(np.uint8))))
        shares = np.bincount(labels.ravel(), minlength=len(names)) / labels.size
    else:
        shares = probabilities[0]
    magnified = max(1, min(_LARGEST_PICTURE, _SHOWN // max(height, width)))
    found = sorted(zip(names, shares.tolist(), strict=True), key=lambda pair: -pair[1])
    return {
        "name": picture.name,
        "width": magnified * width,
        "height": magnified * height,
        "maps": maps,
        "shares": ", ".join(f"{name} {share:.1%}" for name, share in found if share >= _LEAST_SHARE),
    }


def _data_uri(pixels: UInt8[ndarray, "H W C"]) -> str:
    return f"data:image/png;base64,{b64encode(encode_png(pixels)).decode()}"


def _rgb(colour: str) -> list[int]:
    """Return the numbers of a colour written as #rrggbb."""
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def pictures_page(inputs: Sequence[Any], found: Sequence[Predicted], unit: str) -> str:
    """Return the page of pictures and their predicted labels. unit: what is labelled, picture or pixel."""
    pictures = [as_picture(given) for given in inputs]
    drawn = [DrawnPicture(own.name, own.pixels, of.log_probs) for own, of in zip(pictures, found, strict=True)]
    return labelled_pictures_page("Labelled pictures", found[0].labels if found else (), drawn)
