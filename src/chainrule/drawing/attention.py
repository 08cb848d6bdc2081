"""Attention maps of a text, as a page or an SVG; attention over a picture, as a page or a figure.

A map of a text has a row for each query and a column for each key; darker cells have more weight. Small maps also show
the weights as numbers. Tokens are always escaped. Over a picture, there is a panel for each token, upsampled and
smoothed as in figure 2 of Xu et al. 2015; places without attention are dark. Pages need no other file.
Legend: H height, W width of the drawn picture, T tokens.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.drawing.charts import Panel, panels_figure
from chainrule.drawing.pages import png_address, render, shorten
from chainrule.features.vision.pictures.codec import encode_png, resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
    from matplotlib.figure import Figure
    from numpy import ndarray

_LARGEST, _SMALLEST = 40, 12  # pixels of a cell, depending on the number of tokens
_WITH_NUMBERS = 28  # the least pixels of a cell with a number
_LONGEST = 16  # the most letters of a token
_HEAD, _GAP = 26, 18
_HEADING_LETTER = 10.5  # the width of a letter of the heading, about
_WHITE, _DARK = (255, 255, 255), (8, 48, 107)


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """The maps of all heads of a layer. rows, columns: the tokens of queries and keys.

    is_reading: whether each token attends only to those before it; the page then also shows the text as it is read.
    """

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Float32[ndarray, "heads rows columns"]
    is_reading: bool = False


def attention_page(heading: str, maps: Sequence[AttentionMap]) -> str:
    """A self-contained HTML page without scripts."""
    layers = [
        {"title": layer.title, "heads": _heads(layer), "lines": _reading(layer) if layer.is_reading else []}
        for layer in maps
    ]
    return render("attention.html.j2", title=heading, layers=layers)


def attention_svg(heading: str, maps: Sequence[AttentionMap]) -> str:
    """The same maps as one SVG, with a line of heads for each layer."""
    widest = max((_GAP + len(layer.weights) * (_size(layer)[0] + _GAP) for layer in maps), default=0.0)
    lines = wrap(heading, max(20, int((widest - _GAP) / _HEADING_LETTER))) or [heading]
    layers, top = [], (1.0 + len(lines)) * _HEAD
    for layer in maps:
        width, height = _size(layer)
        placed = [(_GAP + i * (width + _GAP), head) for i, head in enumerate(_heads(layer))]
        layers.append({"title": layer.title, "top": top + _HEAD - 8, "maps_top": top + _HEAD, "placed": placed})
        top += _HEAD + height + _GAP
    headings = [((i + 1) * _HEAD, line) for i, line in enumerate(lines)]
    return render("attention.svg.j2", title=heading, headings=headings, width=widest, height=top, layers=layers)


def _heads(layer: AttentionMap) -> list[dict[str, Any]]:
    return [_drawn(layer, head) for head in range(len(layer.weights))]


class _Seen(NamedTuple):
    """A token in the colour of the weight that a later token gives it."""

    text: str
    colour: str
    is_dark: bool
    weight: str


def _reading(layer: AttentionMap) -> list[tuple[str, list[_Seen]]]:
    """Each token, and those before it in the colours of their mean weights over heads."""
    weights = layer.weights.mean(0)
    lines = []
    for i, (now, colours, row) in enumerate(zip(layer.rows, _colours(weights).tolist(), weights.tolist(), strict=True)):
        before = zip(layer.columns[:i], colours, row, strict=False)
        seen = [_Seen(token, f"rgb{tuple(rgb)}", weight > 0.5, f"{weight:.2f}") for token, rgb, weight in before]
        lines.append((now, seen))
    return lines


def _cell(layer: AttentionMap) -> float:
    """The side of a cell, in pixels."""
    return float(min(_LARGEST, max(_SMALLEST, 480 // max(len(layer.rows), len(layer.columns), 1))))


def _font(cell: float) -> float:
    return min(13.0, max(10.0, cell - 2))


def _margins(layer: AttentionMap) -> tuple[float, float]:
    """The space for tokens to the left of the cells and above them, in pixels."""
    letter = 0.66 * _font(_cell(layer))
    left, above = (
        max((min(len(token), _LONGEST) for token in side), default=1) for side in (layer.rows, layer.columns)
    )
    return left * letter + 10, above * letter + 10 + _HEAD


def _size(layer: AttentionMap) -> tuple[float, float]:
    cell, (left, above) = _cell(layer), _margins(layer)
    return left + cell * len(layer.columns) + 8, above + cell * len(layer.rows) + 8


def _drawn(layer: AttentionMap, head: int) -> dict[str, Any]:
    """The values that the template needs for the map of one head."""
    cell, (left, top), (width, height) = _cell(layer), _margins(layer), _size(layer)
    font, weights = _font(cell), np.nan_to_num(layer.weights[head])
    middle = [(i + 0.5) * cell for i in range(max(weights.shape))]
    return {
        "title": layer.title,
        "name": f"head {head + 1}" if len(layer.weights) > 1 else "all",
        "width": width,
        "height": height,
        "left": left,
        "top": top,
        "cells_width": cell * len(layer.columns),
        "cells_height": cell * len(layer.rows),
        "font": font,
        "image": png_address(_colours(weights)),
        "row_labels": [
            _label(left - 5, top + y + font / 3, token) for y, token in zip(middle, layer.rows, strict=False)
        ],
        "column_labels": [
            _label(left + x + font / 3, top - 5, token) for x, token in zip(middle, layer.columns, strict=False)
        ],
        "numbers": [
            {
                "x": left + middle[j],
                "y": top + middle[i] + 4,
                "text": f"{weight:.2f}".removeprefix("0"),
                "on_dark": weight > 0.5,
            }
            for i, row in enumerate(weights.tolist())
            for j, weight in enumerate(row)
            if cell >= _WITH_NUMBERS and weight >= 0.005
        ],
    }


def _label(x: float, y: float, token: str) -> dict[str, Any]:
    """A token's label; if it is shortened, the hint has all of it."""
    return {"x": x, "y": y, "text": shorten(token, _LONGEST), "hint": token if len(token) > _LONGEST else ""}


def _colours(weights: Float32[ndarray, "rows columns"]) -> UInt8[ndarray, "rows columns 3"]:
    white, dark = np.array(_WHITE, np.float64), np.array(_DARK, np.float64)
    share = np.clip(weights, 0, 1)[:, :, None] ** 0.7  # makes small weights visible
    return np.asarray(white + share * (dark - white)).round().astype(np.uint8)


_DARKNESS = 0.2  # share of the brightness that is left where nothing is attended to


@dataclass(frozen=True, kw_only=True)
class AttendedCaption:
    """A caption with the attention of each of its tokens, the end included, over the places of a picture.

    title: the name of the model that wrote it.
    """

    title: str
    text: str
    tokens: Sequence[str]
    attention: Float32[ndarray, "T rows columns"]


def picture_attention_page(
    heading: str, picture: UInt8[ndarray, "H W 3"], captions: Sequence[AttendedCaption], unit: str = "token"
) -> str:
    """A self-contained HTML page without scripts: a row of panels for each caption, one below the other.

    unit: what each panel shows, token or sentence.
    """
    height, width = picture.shape[:2]
    return render(
        "picture_attention.html.j2",
        title=heading,
        unit=unit,
        width=width,
        height=height,
        picture=_address(picture),
        captions=[
            {"title": caption.title, "text": caption.text, "panels": panel_records(picture, caption)}
            for caption in captions
        ],
    )


def panel_records(picture: UInt8[ndarray, "H W 3"], caption: AttendedCaption) -> list[dict[str, str]]:
    """For each token: the picture, bright where the token attends, as a data URL; and the place of most attention, in
    words.
    """
    return [
        {"token": panel.name, "address": _address(panel.pixels), "hint": hint}
        for panel, hint in zip(_panels(picture, caption), _hints(caption), strict=True)
    ]


def picture_attention_figure(
    heading: str, picture: UInt8[ndarray, "H W 3"], captions: Sequence[AttendedCaption]
) -> Figure:
    """The same panels as a figure of matplotlib's. Raises SettingError where that is missing."""
    rows = [
        (f"{caption.title}: {caption.text}", [Panel("", picture), *_panels(picture, caption)]) for caption in captions
    ]
    return panels_figure(heading, rows)


def lit(picture: UInt8[ndarray, "H W 3"], weights: Float32[ndarray, "rows columns"]) -> UInt8[ndarray, "H W 3"]:
    """A picture whose places are the brighter the more attention they get; the brightest place has its own colours."""
    height, width = picture.shape[:2]
    shares = np.clip(weights / max(float(weights.max()), 1e-9), 0, 1)
    smooth = resize((255 * shares).round().astype(np.uint8)[..., None], height, width) / 255.0
    return np.asarray(picture * (_DARKNESS + (1 - _DARKNESS) * smooth)).round().astype(np.uint8)


def _panels(picture: UInt8[ndarray, "H W 3"], caption: AttendedCaption) -> list[Panel]:
    return [
        Panel(token, lit(picture, weights)) for token, weights in zip(caption.tokens, caption.attention, strict=True)
    ]


def _hints(caption: AttendedCaption) -> list[str]:
    """The place of most attention, in words."""
    hints = []
    for weights in caption.attention:
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        hints.append(f"most, {weights.max():.0%}, in row {row + 1}, column {column + 1}")
    return hints


def _address(pixels: UInt8[ndarray, "H W 3"]) -> str:
    return "data:image/png;base64," + b64encode(encode_png(pixels)).decode()
