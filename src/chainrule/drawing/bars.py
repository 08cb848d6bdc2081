"""Horizontal bars on a logarithmic axis, the longest at the top, as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.markup import xml_text
from chainrule.drawing.plots import WIDTH, check_matplotlib

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

_BAR = 0.34  # inches


def bar_chart(title: str, values: Mapping[str, float], label: str) -> Figure:
    """A bar for each positive value, by its name. Raises SettingError if matplotlib is missing."""
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
