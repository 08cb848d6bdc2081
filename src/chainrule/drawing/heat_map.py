"""A matrix as a heat map, with a line plot below it, as one matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import WIDTH, check_matplotlib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from matplotlib.figure import Figure
    from numpy import ndarray

_HEIGHT = 6.0  # inches


def heat_map_with_line(
    title: str,
    matrix: Float[ndarray, "rows columns"],
    labels: tuple[str, str],
    values: Sequence[float],
    value_labels: tuple[str, str],
) -> Figure:
    """The matrix, blue below 0 and red above it, and a line of values by their index below.

    labels: of the rows and the columns. value_labels: of the index and the values. Raises SettingError if matplotlib is
    missing.
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
