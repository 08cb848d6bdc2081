"""Rows of small pictures with a name below each, as a figure of matplotlib's."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.drawing.colours import GRID, INK, PAPER
from chainrule.drawing.markup import xml_text
from chainrule.drawing.plots import check_matplotlib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import UInt8
    from matplotlib.figure import Figure
    from numpy import ndarray

_ACROSS = 6  # panels in a line
_LONGER = 1.5  # the longer side of a panel, in inches
_HEAD, _NAME = 0.34, 0.24  # the height of a line of text above a row, and below a panel
_FURTHER = 0.14  # of each further line of such a text
_LETTERS = 15  # in an inch of a line


class Panel(NamedTuple):
    """Pixels, and what they show."""

    name: str
    pixels: UInt8[ndarray, "H W 3"]


def panels_figure(heading: str, rows: Sequence[tuple[str, Sequence[Panel]]]) -> Figure:
    """A figure with a title, and rows of panels of one size, each row with a title of its own.

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
            axes.imshow(panel.pixels, interpolation="nearest", aspect="auto")
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(GRID.light)
            middle, under = left + panel_width / 2, upper + panel_height + 0.04
            write(name, middle, under, fontsize=8, ha="center", va="top")
        top += -(-len(panels) // _ACROSS) * (panel_height + below)
    return figure
