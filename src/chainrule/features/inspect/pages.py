"""Pages that show a network from the inside, over pictures or over a text; they open without a network connection.

Over a text, a recurrent network's gates are heat maps, and single units are drawn along the text; so is what changes
where a Transformer's heads and layers are removed.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from chainrule.base.files import check_new_file, replace_file
from chainrule.drawing.pages import png_address, render, shorten
from chainrule.errors import SettingError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float32, Float64, UInt8
    from numpy import ndarray


_SUFFIXES = (".html", ".json")


def check_inspection_file(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a file may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in _SUFFIXES:
        raise SettingError(f"{path}: the name must end in .html for a page, or in .json")
    check_new_file(path, overwrite=overwrite)


class Shown(Protocol):
    """What a page shows, and its numbers."""

    @property
    def page(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""


def write_inspection(shown: Shown, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Writes the page, .html, or the numbers, .json. Raises OutputError, SettingError."""
    target = Path(path)
    check_inspection_file(target, overwrite=overwrite)
    is_page = target.suffix.lower() == ".html"
    with replace_file(target) as file:
        file.write((shown.page if is_page else json.dumps(shown.to_dict(), ensure_ascii=False) + "\n").encode())


@dataclass(frozen=True, kw_only=True)
class Image:
    """A PNG file, its size in pixels, and what it shows."""

    png: bytes
    height: int
    width: int
    hint: str = ""

    @property
    def address(self) -> str:
        """The picture itself, as an address in a page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True, kw_only=True)
class ShownUnit:
    """A channel of a layer: its map of the shown picture, and the patches that excite it most."""

    number: int
    map: Image
    patches: Sequence[Image]


@dataclass(frozen=True, kw_only=True)
class ShownLayer:
    """A layer as it is shown.

    box: the receptive field of the strongest unit at its strongest place: top, left, bottom, right.
    """

    name: str
    channels: int
    height: int
    width: int
    strongest: int
    box: tuple[int, int, int, int]
    units: Sequence[ShownUnit]


def inside_page(
    heading: str, picture: Image, pictures: int, filters: Sequence[Image], layers: Sequence[ShownLayer]
) -> str:
    """A self-contained HTML page without scripts. pictures: how many were searched for patches."""
    return render(
        "inside_pictures.html.j2", title=heading, picture=picture, pictures=pictures, filters=filters, layers=layers
    )


NAMES = {
    "i": "input gate i",
    "f": "forget gate f",
    "o": "output gate o",
    "g": "candidate g",
    "c": "cell c",
    "r": "reset gate r",
    "z": "update gate z",
    "n": "candidate n",
    "h": "hidden h",
}
_GATES = "iforz"  # from 0 to 1; the others may be negative
_PAPER, _HIGH, _LOW = (255, 255, 255), (180, 60, 0), (8, 72, 150)
_ROW, _FONT, _HEAD = 12.0, 11.0, 26
_WIDEST, _COLUMN = 420, (6, 26)  # pixels of a map, and of a column
_LONGEST = 16  # letters of a token


@dataclass(frozen=True, kw_only=True)
class InsideLayer:
    """The values that a layer computes at each token. values: by name. units: those that are shown."""

    name: str
    values: Mapping[str, Float32[ndarray, "T D"]]
    units: Sequence[int]


class Span(NamedTuple):
    """A token in the colour of a unit's value."""

    text: str
    colour: str
    is_dark: bool
    value: str


def inside_text_page(heading: str, tokens: Sequence[str], layers: Sequence[InsideLayer], along: int) -> str:
    """A self-contained HTML page without scripts. along: how many units of a layer are shown along the text."""
    shown = [
        {
            "name": layer.name,
            "width": next(iter(layer.values.values())).shape[1],
            "maps": [_map(layer, name, tokens) for name in layer.values],
            "units": [_along(layer, unit, tokens) for unit in layer.units[:along]],
        }
        for layer in layers
    ]
    return render("inside_texts.html.j2", title=heading, layers=shown, low=_css(_LOW), high=_css(_HIGH))


def effects_page(
    heading: str,
    done: str,
    tokens: Sequence[str],
    parts: Sequence[str],
    effects: Float64[ndarray, "layers parts"],
    along: Sequence[tuple[str, Float32[ndarray, " T"]]],
) -> str:
    """A self-contained HTML page without scripts: what changes where parts of a Transformer are replaced.

    along: parts whose effect is shown at each token, with their names.
    """
    scale = max(float(np.abs(effects).max()), 1e-9)
    rows = [f"layer {layer + 1}" for layer in range(len(effects))]
    cell, left, top = 42.0, 70.0, 74.0
    drawn = {
        "title": heading,
        "name": "",
        "width": left + cell * len(parts) + 8,
        "height": top + cell * len(rows) / 2 + 8,
        "left": left,
        "top": top,
        "cells_width": cell * len(parts),
        "cells_height": cell * len(rows) / 2,
        "font": _FONT,
        "image": png_address(_colours(-effects / scale)),
        "row_labels": [
            {"x": left - 5, "y": top + (i + 0.7) * cell / 2, "text": name, "hint": ""} for i, name in enumerate(rows)
        ],
        "column_labels": [
            {"x": left + (i + 0.5) * cell + _FONT / 3, "y": top - 5, "text": name, "hint": ""}
            for i, name in enumerate(parts)
        ],
        "numbers": [
            {
                "x": left + (j + 0.5) * cell,
                "y": top + (i + 0.7) * cell / 2,
                "text": f"{value:+.2f}",
                "on_dark": abs(value) > scale / 2,
            }
            for i, row in enumerate(effects.tolist())
            for j, value in enumerate(row)
        ],
    }
    largest = max((float(np.abs(change).max(initial=0.0)) for _, change in along), default=0.0) or 1.0
    lines = []
    for name, change in along:
        shares = -change / largest
        spans = [
            Span(token, _css(colour), abs(share) > 0.55, f"{value:+.3f}")
            for token, colour, share, value in zip(
                tokens, _colours(shares).tolist(), shares.tolist(), change.tolist(), strict=True
            )
        ]
        lines.append({"name": name, "spans": spans})
    return render("effects.html.j2", title=heading, done=done, map=drawn, lines=lines, low=_css(_LOW), high=_css(_HIGH))


def _map(layer: InsideLayer, name: str, tokens: Sequence[str]) -> dict[str, Any]:
    """The values that the template of attention maps needs: a row for each unit, a column for each token."""
    values = layer.values[name][:, list(layer.units)].T
    scale = _scale(layer.values[name], name)
    column = min(_COLUMN[1], max(_COLUMN[0], _WIDEST / max(len(tokens), 1)))
    left, top = 0.66 * _FONT * max(len(str(unit)) for unit in layer.units) + 10, _HEAD + _above(tokens)
    width, height = column * len(tokens), _ROW * len(layer.units)
    return {
        "title": layer.name,
        "name": f"{NAMES[name]}, {'0 to 1' if name in _GATES else f'−{scale:.2g} to {scale:.2g}'}",
        "width": max(left + width + 8, 210),
        "height": top + height + 8,
        "left": left,
        "top": top,
        "cells_width": width,
        "cells_height": height,
        "font": _FONT,
        "image": png_address(_colours(values / scale)),
        "row_labels": [
            {"x": left - 5, "y": top + (i + 0.75) * _ROW, "text": str(unit), "hint": ""}
            for i, unit in enumerate(layer.units)
        ],
        "column_labels": [
            {"x": left + (i + 0.5) * column + _FONT / 3, "y": top - 5, "text": shorten(token, _LONGEST), "hint": token}
            for i, token in enumerate(tokens)
        ],
        "numbers": [],
    }


def _along(layer: InsideLayer, unit: int, tokens: Sequence[str]) -> dict[str, Any]:
    """The text in the colours of a unit, once for each value that it computes."""
    rows = []
    for name, values in layer.values.items():
        column = values[:, unit]
        shares = column / _scale(values, name)
        spans = [
            Span(token, _css(colour), abs(share) > 0.55, f"{value:.3f}")
            for token, colour, share, value in zip(
                tokens, _colours(shares).tolist(), shares.tolist(), column.tolist(), strict=True
            )
        ]
        rows.append({"name": NAMES[name], "spans": spans})
    return {"number": unit, "rows": rows}


def _scale(values: Float32[ndarray, "T D"], name: str) -> float:
    """The value with the full colour: 1; for cells and ReLU, which have no bound, the largest value."""
    return max(1.0, float(np.abs(values).max(initial=0.0))) if name in "ch" else 1.0


def _colours(shares: Float32[ndarray, "*rows T"]) -> UInt8[ndarray, "*rows T 3"]:
    """White at 0, one colour towards 1, another towards -1."""
    white, high, low = (np.array(colour, np.float64) for colour in (_PAPER, _HIGH, _LOW))
    share: Float64[ndarray, "*rows T 1"] = np.clip(shares.astype(np.float64), -1, 1)[..., None]
    mixed = white + np.abs(share) * (np.where(share > 0, high, low) - white)
    return mixed.round().astype(np.uint8)


def _above(tokens: Sequence[str]) -> float:
    """The height of the tokens above a map."""
    return 0.66 * _FONT * max((len(shorten(token, _LONGEST)) for token in tokens), default=1) + 8


def _css(colour: Sequence[int]) -> str:
    return f"rgb({', '.join(map(str, colour))})"


def check_page(path: Path, *, overwrite: bool) -> None:
    """Checks, before the work, that a page may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() != ".html":
        raise SettingError(f"{path}: the name of a page must end in .html")
    check_new_file(path, overwrite=overwrite)
