"""Maps of attention: a page of HTML that needs nothing else, and a picture (SVG) of the same maps.

Each map is a table: a row for each token that looks, a column for each that is looked at, the darker the more weight.
Small ones show the numbers, too. Every token is text, whatever it holds.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.drawing.rendering import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
    from numpy import ndarray

_LARGEST, _SMALLEST = 40, 12  # pixels of a cell, by the number of tokens
_WITH_NUMBERS = 28  # pixels of a cell that holds a number
_LONGEST = 16  # letters of a token that are shown
_HEAD, _GAP = 26, 18
_WHITE, _DARK = (255, 255, 255), (8, 48, 107)


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """weights: of each head, rows that look, columns that are looked at. title: of all heads."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    weights: Float32[ndarray, "heads rows columns"]


def attention_page(heading: str, maps: Sequence[AttentionMap]) -> str:
    """HTML in one piece: no script, no other file."""
    layers = [{"title": one.title, "heads": _heads(one)} for one in maps]
    return render("attention.html.j2", title=heading, layers=layers)


def attention_svg(heading: str, maps: Sequence[AttentionMap]) -> str:
    """The same maps in one picture: a line of heads for each layer."""
    layers, top, widest = [], 2.0 * _HEAD, 0.0
    for one in maps:
        heads, (width, height) = _heads(one), _size(one)
        placed = [(_GAP + number * (width + _GAP), head) for number, head in enumerate(heads)]
        layers.append({"title": one.title, "top": top + _HEAD - 8, "maps_top": top + _HEAD, "placed": placed})
        widest = max(widest, _GAP + len(heads) * (width + _GAP))
        top += _HEAD + height + _GAP
    return render("attention.svg.j2", title=heading, width=widest, height=top, layers=layers)


def _heads(of_layer: AttentionMap) -> list[dict[str, Any]]:
    return [_drawn(of_layer, head) for head in range(len(of_layer.weights))]


def _cell(of_layer: AttentionMap) -> float:
    """Pixels."""
    return float(min(_LARGEST, max(_SMALLEST, 480 // max(len(of_layer.rows), len(of_layer.columns), 1))))


def _font(cell: float) -> float:
    return min(13.0, max(10.0, cell - 2))


def _margins(of_layer: AttentionMap) -> tuple[float, float]:
    """At the left and above the cells, for the tokens."""
    letter = 0.66 * _font(_cell(of_layer))
    left, above = (max((len(_short(token)) for token in side), default=1) for side in (of_layer.rows, of_layer.columns))
    return left * letter + 10, above * letter + 10 + _HEAD


def _size(of_layer: AttentionMap) -> tuple[float, float]:
    cell, (left, above) = _cell(of_layer), _margins(of_layer)
    return left + cell * len(of_layer.columns) + 8, above + cell * len(of_layer.rows) + 8


def _drawn(of_layer: AttentionMap, head: int) -> dict[str, Any]:
    """What the template needs of one head's map."""
    cell, (left, top), (width, height) = _cell(of_layer), _margins(of_layer), _size(of_layer)
    font, weights = _font(cell), np.nan_to_num(of_layer.weights[head])
    middle = [(place + 0.5) * cell for place in range(max(weights.shape))]
    return {
        "title": of_layer.title,
        "name": f"head {head + 1}" if len(of_layer.weights) > 1 else "all",
        "width": width,
        "height": height,
        "left": left,
        "top": top,
        "cells_width": cell * len(of_layer.columns),
        "cells_height": cell * len(of_layer.rows),
        "font": font,
        "image": _png(_colours(weights)),
        "row_labels": [
            _label(left - 5, top + y + font / 3, token) for y, token in zip(middle, of_layer.rows, strict=False)
        ],
        "column_labels": [
            _label(left + x + font / 3, top - 5, token) for x, token in zip(middle, of_layer.columns, strict=False)
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


def _short(token: str) -> str:
    return token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…"


def _label(x: float, y: float, token: str) -> dict[str, Any]:
    """What is shown of a token; where that is not all, the hint has it."""
    return {"x": x, "y": y, "text": _short(token), "hint": token if len(token) > _LONGEST else ""}


def _colours(weights: Float32[ndarray, "rows columns"]) -> UInt8[ndarray, "rows columns 3"]:
    white, dark = np.array(_WHITE, np.float64), np.array(_DARK, np.float64)
    share = np.clip(weights, 0, 1)[:, :, None] ** 0.7  # so that small weights can be seen
    return np.asarray(white + share * (dark - white)).round().astype(np.uint8)


def _png(pixels: UInt8[ndarray, "rows columns 3"]) -> str:
    """A PNG as an address, so that no other file is needed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns, _ = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)  # eight bits, three colours
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # no filter
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()
