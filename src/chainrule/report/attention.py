"""Maps of attention: a page of HTML that needs nothing else, and a picture (SVG) of the same maps.

Each map is a table: a row for each token that looks, a column for each that is looked at, the darker the more weight.
Small ones show the numbers, too. Every token is text, whatever it holds.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chainrule.report.markup import markup_text

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
    parts = []
    for each in maps:
        pictures = "".join(f"<figure>{_one(each, head)}</figure>" for head in range(len(each.weights)))
        parts.append(f"<section><h2>{markup_text(each.title)}</h2><div>{pictures}</div></section>")
    title = markup_text(heading)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{title}</h1><p>Rows look at columns; the darker, the more. A row sums to one.</p>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def attention_svg(heading: str, maps: Sequence[AttentionMap]) -> str:
    """The same maps in one picture: a line of heads for each layer."""
    parts, top, widest = [], 2.0 * _HEAD, 0.0
    for each in maps:
        width, height = _size(each)
        parts.append(f'<text x="{_GAP}" y="{top + _HEAD - 8:g}" class="title">{markup_text(each.title)}</text>')
        parts += [_one(each, head, at=(_GAP + head * (width + _GAP), top + _HEAD)) for head in range(len(each.weights))]
        widest = max(widest, _GAP + len(each.weights) * (width + _GAP))
        top += _HEAD + height + _GAP
    title = markup_text(heading)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest:g} {top:g}" width="{widest:g}" '
        f'height="{top:g}" role="img"><title>{title}</title><style>{_TEXT}</style>'
        f'<rect width="100%" height="100%" fill="#ffffff"/><text x="{_GAP}" y="{_HEAD:g}" class="heading">{title}'
        f"</text>{''.join(parts)}</svg>\n"
    )


_TEXT = (
    "text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#1b1b1f}.title{font-size:15px;font-weight:600}"
    ".heading{font-size:18px;font-weight:600}"
)
_STYLE = (
    "body{font-family:ui-sans-serif,system-ui,sans-serif;margin:24px;background:#fff;color:#1b1b1f}"
    "h1{font-size:20px;overflow-wrap:anywhere}h2{font-size:16px;margin:20px 0 4px}"
    "section div{display:flex;flex-wrap:wrap;gap:16px}figure{margin:0;max-width:100%;overflow-x:auto}"
    "text{font-family:ui-sans-serif,system-ui,sans-serif;fill:#1b1b1f}"
)


def _cell(each: AttentionMap) -> float:
    """Pixels."""
    return float(min(_LARGEST, max(_SMALLEST, 480 // max(len(each.rows), len(each.columns), 1))))


def _font(cell: float) -> float:
    return min(13.0, max(10.0, cell - 2))


def _margins(each: AttentionMap) -> tuple[float, float]:
    """At the left and above the cells, for the tokens."""
    letter = 0.66 * _font(_cell(each))
    left, above = (max((len(_short(token)) for token in side), default=1) for side in (each.rows, each.columns))
    return left * letter + 10, above * letter + 10 + _HEAD


def _size(each: AttentionMap) -> tuple[float, float]:
    cell, (left, above) = _cell(each), _margins(each)
    return left + cell * len(each.columns) + 8, above + cell * len(each.rows) + 8


def _one(each: AttentionMap, head: int, at: tuple[float, float] = (0.0, 0.0)) -> str:
    """One head's map, an SVG of its own."""
    cell, (left, above), (width, height) = _cell(each), _margins(each), _size(each)
    font, weights = _font(cell), np.nan_to_num(each.weights[head])
    wide, high = cell * len(each.columns), cell * len(each.rows)
    name = f"head {head + 1}" if len(each.weights) > 1 else "all"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" x="{at[0]:g}" y="{at[1]:g}" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{markup_text(each.title)}, {name}">',
        f'<text x="2" y="14" font-size="13" font-weight="600">{name}</text>',
        f'<image x="{left:g}" y="{above:g}" width="{wide:g}" height="{high:g}" preserveAspectRatio="none" '
        f'style="image-rendering:pixelated" href="{_png(_colours(weights))}"/>',
        f'<rect x="{left:g}" y="{above:g}" width="{wide:g}" height="{high:g}" fill="none" stroke="#c8c8d0"/>',
    ]
    for i, token in enumerate(each.rows):
        y = above + (i + 0.5) * cell + font / 3
        parts.append(f'<text x="{left - 5:g}" y="{y:g}" font-size="{font:g}" text-anchor="end">{_label(token)}</text>')
    for j, token in enumerate(each.columns):
        x, y = left + (j + 0.5) * cell + font / 3, above - 5
        parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{font:g}" transform="rotate(-90 {x:g} {y:g})">{_label(token)}</text>'
        )
    if cell >= _WITH_NUMBERS:
        for i, row in enumerate(weights.tolist()):
            for j, weight in enumerate(row):
                if weight >= 0.005:
                    x, y = left + (j + 0.5) * cell, above + (i + 0.5) * cell + 4
                    ink = "#ffffff" if weight > 0.5 else "#1b1b1f"
                    shown = f"{weight:.2f}".removeprefix("0")
                    middle = f'x="{x:g}" y="{y:g}" font-size="11" text-anchor="middle"'
                    parts.append(f'<text {middle} style="fill:{ink}">{shown}</text>')
    return "".join(parts) + "</svg>"


def _short(token: str) -> str:
    return token if len(token) <= _LONGEST else token[: _LONGEST - 1] + "…"


def _label(token: str) -> str:
    """What is shown of a token, and all of it for who points there."""
    shown = markup_text(_short(token))
    return shown if len(token) <= _LONGEST else f"<title>{markup_text(token)}</title>{shown}"


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
