"""The picture in README: bits per byte of every model that `compare` trains, with intervals and training times.

    python bench/front_page.py docs/ladder.svg [--minutes 0.6]

Trains on Python's own documentation, each network for so many minutes: some five minutes in all by default. Prints
the machine and the table, for bench/results/.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from machine import circumstances
from matplotlib.figure import Figure

import chainrule
from chainrule.base.tables import markdown_table
from chainrule.drawing.colours import GRID, INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import write_plot

if TYPE_CHECKING:
    from chainrule.features.compare.comparison import Comparison


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--minutes", type=float, default=0.6, help="of training, for each network")
    options = parser.parse_args()
    comparison = chainrule.compare_families(minutes=options.minutes)
    write_plot(ladder(comparison), options.picture)
    print(f"{circumstances()}\n{options.minutes:g} minutes for each network\n")
    print(markdown_table(comparison.header(), comparison.rows()))
    print("\n" + "\n".join(f"- {note}" for note in comparison.notes()))


def ladder(comparison: Comparison) -> Figure:
    """A row for each model but the uniform one: its bits per byte with the 95 % interval, and its training time."""
    rows = [contender for contender in comparison.contenders if contender.name != "uniform"]
    figure = Figure(figsize=(6.8, 0.7 + 0.25 * len(rows)), layout="constrained", facecolor=PAPER.light)
    axes = figure.add_subplot(facecolor=PAPER.light)
    axes.set_title(
        "Bits per byte of held-out text, and seconds of training",
        loc="left",
        fontsize=11,
        fontweight="bold",
        color=INK.light,
        pad=12,
    )
    for position, contender in enumerate(rows):
        low, high = contender.measurement.interval
        bits, seconds = contender.measurement.bits_per_byte, contender.train_seconds or 0.0
        colour = LINES[2 if contender is comparison.best else 1 if contender.curve else 0].light  # networks have curves
        axes.plot([low, high], [position, position], color=colour, linewidth=2, solid_capstyle="butt")
        axes.plot([bits], [position], color=colour, marker="o", markersize=6, markeredgewidth=0)
        axes.annotate(
            f"{bits:.2f}",
            (high, position),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK.light,
        )
        time = f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.0f} s"
        axes.text(
            1.0,
            position,
            time,
            va="center",
            ha="right",
            fontsize=9,
            color=QUIET.light,
            transform=axes.get_yaxis_transform(),
        )
    axes.set_yticks(range(len(rows)), [contender.name for contender in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(length=0, labelcolor=QUIET.light, labelsize=9)
    axes.grid(axis="x", color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 0.2 * (high - low))
    return figure


if __name__ == "__main__":
    main()
