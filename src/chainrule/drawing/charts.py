"""Figures of matplotlib's: horizontal bars on a logarithmic axis, a heat map with a line below, rows of pictures."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.drawing.colours import GRID, INK, LINES, PAPER, QUIET
from chainrule.drawing.pages import xml_text
from chainrule.drawing.plots import WIDTH, check_matplotlib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float, UInt8
    from matplotlib.figure import Figure
    from numpy import ndarray

_BAR = 0.34  # inches


def bar_chart(title: str, values: Mapping[str, float], label: str) -> Figure:
    """Return a bar for each positive value, by its name. Raises SettingError if matplotlib is missing."""
    check_matplotlib()
    from matplotlib.figure import Figure

    names = sorted(values, key=values.__getitem__)
    figure = Figure(figsize=(WIDTH, 1.3 + _BAR * len(names)), layout="constrained", facecolor=PAPER.light)
    axes = figure.add_subplot()
    bars = axes.barh([xml_text(name) for name in names], [values[name] for name in names], color=LINES[0].light)
    axes.bar_label(bars, [f" {values[name]:,.0f}" for name in names], fontsize=9, color=QUIET.light)
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK.light)
    axes.set(xscale="log", xlabel=label)
    axes.margins(x=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=QUIET.light, labelsize=9)
    return figure


_HEIGHT = 6.0  # inches


def heat_map_with_line(
    title: str,
    matrix: Float[ndarray, "rows columns"],
    labels: tuple[str, str],
    values: Sequence[float],
    value_labels: tuple[str, str],
) -> Figure:
    """Return the matrix, blue below 0 and red above it, and a line of values by their index below.

    labels: those of the axes of rows and columns. value_labels: those of the index and the values. Raises SettingError
    if matplotlib is missing.
    """
    check_matplotlib()
    import numpy as np
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, _HEIGHT), layout="constrained", facecolor=PAPER.light)
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    above.set_title(title, loc="left", fontsize=11, fontweight="bold", color=INK.light)
    limit = float(np.abs(matrix).max()) or 1.0
    image = above.imshow(matrix, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    above.set(ylabel=labels[0], xlabel=labels[1])
    figure.colorbar(image, ax=above)
    below.plot(values, color=LINES[0].light, linewidth=1.5)
    below.set(xlabel=value_labels[0], ylabel=value_labels[1])
    below.spines[["top", "right"]].set_visible(False)
    for axes in (above, below):
        axes.tick_params(colors=QUIET.light, labelsize=9)
    return figure


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
            axes.imshow(panel.pixels, interpolation="nearest", aspect="auto")
            axes.set(xticks=[], yticks=[])
            for spine in axes.spines.values():
                spine.set_color(GRID.light)
            middle, under = left + panel_width / 2, upper + panel_height + 0.04
            write(name, middle, under, fontsize=8, ha="center", va="top")
        top += -(-len(panels) // _ACROSS) * (panel_height + below)
    return figure
