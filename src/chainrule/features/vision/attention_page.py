"""Attention over a picture, as a page or a figure.

There is a panel for each token, upsampled and smoothed as in figure 2 of Xu et al. 2015; places without attention are
dark. Pages need no other file.
Legend: H height, W width of the drawn picture, T tokens.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.drawing.colours import GRID, INK, PAPER
from chainrule.drawing.pages import render, xml_text
from chainrule.drawing.plots import PHOTOGRAPH, check_matplotlib
from chainrule.features.vision.pictures.codec import encode_png, resize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float32, UInt8
    from matplotlib.figure import Figure
    from numpy import ndarray


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
    """Return a self-contained HTML page without scripts: a row of panels for each caption, one below the other.

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
    """Return, for each token, the picture, bright where the token attends, as a data URL; and the place of most
    attention, in words.
    """
    return [
        {"token": panel.name, "address": _address(panel.pixels), "hint": hint}
        for panel, hint in zip(_panels(picture, caption), _hints(caption), strict=True)
    ]


def picture_attention_figure(
    heading: str, picture: UInt8[ndarray, "H W 3"], captions: Sequence[AttendedCaption]
) -> Figure:
    """Return the same panels as a figure of matplotlib's. Raises SettingError where that is missing."""
    rows = [
        (f"{caption.title}: {caption.text}", [Panel("", picture), *_panels(picture, caption)]) for caption in captions
    ]
    return panels_figure(heading, rows)


def lit(picture: UInt8[ndarray, "H W 3"], weights: Float32[ndarray, "rows columns"]) -> UInt8[ndarray, "H W 3"]:
    """Return a picture whose places are the brighter the more attention they get; the brightest place keeps its
    colours.
    """
    height, width = picture.shape[:2]
    shares = np.clip(weights / max(float(weights.max()), 1e-9), 0, 1)
    smooth = resize((255 * shares).round().astype(np.uint8)[..., None], height, width) / 255.0
    return np.asarray(picture * (_DARKNESS + (1 - _DARKNESS) * smooth)).round().astype(np.uint8)


def _panels(picture: UInt8[ndarray, "H W 3"], caption: AttendedCaption) -> list[Panel]:
    return [
        Panel(token, lit(picture, weights)) for token, weights in zip(caption.tokens, caption.attention, strict=True)
    ]


def _hints(caption: AttendedCaption) -> list[str]:
    """Return the place of most attention, in words."""
    hints = []
    for weights in caption.attention:
        row, column = np.unravel_index(int(weights.argmax()), weights.shape)
        hints.append(f"most, {weights.max():.0%}, in row {row + 1}, column {column + 1}")
    return hints


def _address(pixels: UInt8[ndarray, "H W 3"]) -> str:
    return "data:image/png;base64," + b64encode(encode_png(pixels)).decode()


_ACROSS = 6  # panels in a line
_LONGER = 1.5  # the longer side of a panel, in inches
_HEAD, _NAME = 0.34, 0.24  # the height of a line of text above a row, and below a panel
_FURTHER = 0.14  # of each further line of such a text
_LETTERS = 15  # in an inch of a line


class Panel(NamedTuple):
    """A picture's pixels, and the name of what they show."""

    name: str
    pixels: UInt8[ndarray, "H W 3"]


def panels_figure(heading: str, rows: Sequence[tuple[str, Sequence[Panel]]]) -> Figure:
    """Return a figure with a title, and rows of panels of one size, each row with a title.

    Raises SettingError where matplotlib is missing.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    tall, wide = rows[0][1][0].pixels.shape[:2]
    panel_width, panel_height = (_LONGER * side / max(tall, wide) for side in (wide, tall))
    counts = [-(-len(panels) // _ACROSS) for _, panels in rows]
    across = min(_ACROSS, max(len(panels) for _, panels in rows))
    width = max(across * (panel_width + 0.1) + 0.1, 4.0)
    titles = [fill(title, int(width * _LETTERS)) for title, _ in rows]
    names = [[fill(panel.name, max(8, int(panel_width * _LETTERS))) for panel in panels] for _, panels in rows]
    below = _NAME + _FURTHER * max(name.count("\n") for several in names for name in several)
    above = [_HEAD + _FURTHER * title.count("\n") for title in titles]
    height = _HEAD + sum(head + count * (panel_height + below) for head, count in zip(above, counts, strict=True))
    figure = Figure(figsize=(width, height), facecolor=PAPER.light)

    def write(text: str, x: float, y: float, **style: Any) -> None:
        lines = "\n".join(xml_text(line) for line in text.split("\n"))
        figure.text(x / width, 1 - y / height, lines, color=INK.light, parse_math=False, **style)

    write(heading, 0.1, 0.24, fontsize=11, fontweight="bold")
    top = _HEAD
    for (_, panels), title, own_names, head in zip(rows, titles, names, above, strict=True):
        write(title, 0.1, top + head - 0.12, fontsize=9)
        top += head
        for i, (panel, name) in enumerate(zip(panels, own_names, strict=True)):
            line, column = divmod(i, _ACROSS)
            left, upper = 0.1 + column * (panel_width + 0.1), top + line * (panel_height + below)
            box = (left / width, 1 - (upper + panel_height) / height, panel_width / width, panel_height / height)
            axes = figure.add_axes(box)
            axes.imshow(panel.pixels, interpolation="nearest", aspect="auto", gid=PHOTOGRAPH)
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(GRID.light)
            middle, under = left + panel_width / 2, upper + panel_height + 0.04
            write(name, middle, under, fontsize=8, ha="center", va="top")
        top += -(-len(panels) // _ACROSS) * (panel_height + below)
    return figure
