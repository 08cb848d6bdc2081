"""Rows of small pictures with a name below each, as a figure of matplotlib's."""

from __future__ import annotations

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
    lines = [-(-len(panels) // _ACROSS) for _, panels in rows]
    across = min(_ACROSS, max(len(panels) for _, panels in rows))
    width = max(across * (panel_width + 0.1) + 0.1, 4.0)
    height = _HEAD + sum(_HEAD + count * (panel_height + _NAME) for count in lines)
    figure = Figure(figsize=(width, height), facecolor=PAPER.light)

    def write(text: str, x: float, y: float, **style: Any) -> None:
        figure.text(x / width, 1 - y / height, xml_text(text), color=INK.light, parse_math=False, **style)

    write(heading, 0.1, 0.24, fontsize=11, fontweight="bold")
    top = _HEAD
    for title, panels in rows:
        write(title, 0.1, top + 0.22, fontsize=9)
        top += _HEAD
        for i, panel in enumerate(panels):
            line, column = divmod(i, _ACROSS)
            left, upper = 0.1 + column * (panel_width + 0.1), top + line * (panel_height + _NAME)
            box = (left / width, 1 - (upper + panel_height) / height, panel_width / width, panel_height / height)
            axes = figure.add_axes(box)
            axes.imshow(panel.pixels, interpolation="nearest", aspect="auto")
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(GRID.light)
            write(panel.name, left + panel_width / 2, upper + panel_height + 0.16, fontsize=8, ha="center")
        top += -(-len(panels) // _ACROSS) * (panel_height + _NAME)
    return figure
