"""Draws how two words attend to each other, step by step: their queries, keys and values, the weights, and the outputs.

python docs/thinking_machines.py docs/drawings/thinking-machines.svg

The numbers are those of docs/by_hand.py, computed here from the same three matrices.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from chainrule.drawing.colours import INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import write_plot

WORDS = ("Thinking", "Machines")


def steps() -> list[tuple[str, np.ndarray]]:
    """The name and the matrix of each step, a row for each word."""
    x = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1]])
    first, last = np.eye(4)[:, :2], np.eye(4)[:, 2:]
    q, k, v = x @ (2 * first), x @ last, x @ (2 * first)
    scores = q @ k.T / math.sqrt(k.shape[1])
    weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return [
        ("x", x),
        ("q", q),
        ("k", k),
        ("v", v),
        ("q·k / √2", scores),
        ("softmax", weights),
        ("z", weights @ v),
    ]


def drawing() -> Figure:
    """A panel for each step, from left to right; the darker, the larger."""
    panels = steps()
    largest = max(matrix.max() for _, matrix in panels)
    widths = [matrix.shape[1] for _, matrix in panels]
    figure = Figure(figsize=(9.6, 1.6), layout="constrained", facecolor=PAPER.light)
    for axes, (name, matrix) in zip(figure.subplots(1, len(panels), width_ratios=widths), panels, strict=True):
        axes.set_title(name, fontsize=10, fontweight="bold", color=INK.light)
        for row, column in np.ndindex(matrix.shape):
            share = matrix[row, column] / largest
            axes.add_patch(Rectangle((column, row), 1, 1, fc=to_rgba(LINES[0].light, share), ec=QUIET.light, lw=0.5))
            axes.text(
                column + 0.5,
                row + 0.5,
                f"{matrix[row, column]:.3g}",
                ha="center",
                va="center",
                fontsize=9,
                color=PAPER.light if share > 0.6 else INK.light,
            )
        axes.set(xlim=(0, matrix.shape[1]), ylim=(2, 0), xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(False)
        if name == "x":
            axes.set_yticks([0.5, 1.5], WORDS)
            axes.tick_params(length=0, labelsize=10, colors=QUIET.light)
    return figure


if __name__ == "__main__":
    write_plot(drawing(), Path(sys.argv[1]))
