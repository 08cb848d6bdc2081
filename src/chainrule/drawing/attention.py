"""Attention maps of a text, as a page or an SVG.

A map has a row for each query and a column for each key; darker cells have more weight. Small maps also show the
weights as numbers. Tokens are always escaped. Pages need no other file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.base.tables import count_of
from chainrule.drawing.pages import png_address, render, shorten
from chainrule.errors import SettingError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
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
    """Return a self-contained HTML page without scripts."""
    layers = [
        {"title": layer.title, "heads": _heads(layer), "lines": _reading(layer) if layer.is_reading else []}
        for layer in maps
    ]
    return render("attention.html.j2", title=heading, layers=layers)


def attention_svg(heading: str, maps: Sequence[AttentionMap]) -> str:
    """Return the same maps as one SVG, with a line of heads for each layer."""
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
    """Return each token, and those before it in the colours of their mean weights over heads."""
    weights = layer.weights.mean(0)
    lines = []
    for i, (now, colours, row) in enumerate(zip(layer.rows, _colours(weights).tolist(), weights.tolist(), strict=True)):
        before = zip(layer.columns[:i], colours, row, strict=False)
        seen = [_Seen(token, f"rgb{tuple(rgb)}", weight > 0.5, f"{weight:.2f}") for token, rgb, weight in before]
        lines.append((now, seen))
    return lines


def _cell(layer: AttentionMap) -> float:
    """Return the side of a cell, in pixels."""
    return float(min(_LARGEST, max(_SMALLEST, 480 // max(len(layer.rows), len(layer.columns), 1))))


def _font(cell: float) -> float:
    return min(13.0, max(10.0, cell - 2))


def _margins(layer: AttentionMap) -> tuple[float, float]:
    """Return the space for tokens to the left of the cells and above them, in pixels."""
    letter = 0.66 * _font(_cell(layer))
    left, above = (
        max((min(len(token), _LONGEST) for token in side), default=1) for side in (layer.rows, layer.columns)
    )
    return left * letter + 10, above * letter + 10 + _HEAD


def _size(layer: AttentionMap) -> tuple[float, float]:
    cell, (left, above) = _cell(layer), _margins(layer)
    return left + cell * len(layer.columns) + 8, above + cell * len(layer.rows) + 8


def _drawn(layer: AttentionMap, head: int) -> dict[str, Any]:
    """Return the values that the template needs for the map of one head."""
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
    """Return a token's label; if it is shortened, the hint has all of it."""
    return {"x": x, "y": y, "text": shorten(token, _LONGEST), "hint": token if len(token) > _LONGEST else ""}


def _colours(weights: Float32[ndarray, "rows columns"]) -> UInt8[ndarray, "rows columns 3"]:
    white, dark = np.array(_WHITE, np.float64), np.array(_DARK, np.float64)
    share = np.clip(weights, 0, 1)[:, :, None] ** 0.7  # makes small weights visible
    return np.asarray(white + share * (dark - white)).round().astype(np.uint8)


_DRAWN = {".html": attention_page, ".svg": attention_svg}


@dataclass(frozen=True)
class AttentionMaps:
    """The attention of all layers and heads while a network reads a text. heading: the text."""

    heading: str
    maps: Sequence[AttentionMap]

    @property
    def contents(self) -> str:
        """What there is, in words."""
        return count_of(sum(len(layer.weights) for layer in self.maps), "map")

    def __repr__(self) -> str:
        count = sum(len(layer.weights) for layer in self.maps)
        return f"<AttentionMaps: {count} of {self.heading!r}>"

    def _repr_html_(self) -> str:
        return attention_svg(self.heading, self.maps)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a self-contained page, .html, or a picture, .svg. Raises OutputError, SettingError."""
        target = Path(path)
        check_target(target, overwrite=overwrite)
        with replace_file(target) as file:
            file.write(_DRAWN[target.suffix.lower()](self.heading, self.maps).encode())


def check_target(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that maps may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in _DRAWN:
        raise SettingError(f"{path}: the name of a page or a picture must end in {' or '.join(_DRAWN)}")
    check_new_file(path, overwrite=overwrite)
