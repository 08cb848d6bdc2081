"""Figures of matplotlib's: horizontal bars on a logarithmic axis, a heat map with a line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.pages import xml_text
from chainrule.drawing.plots import WIDTH, check_matplotlib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jaxtyping import Float
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
