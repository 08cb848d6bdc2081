"""The picture in README: bits per byte of every model that `compare` trains, with intervals and training times.

    python bench/front_page.py docs/ladder.svg [--minutes 0.6]
    python bench/front_page.py docs/ladder.svg --record bench/results/2026-11-29-front-page.md

Trains on Python's own documentation, each network for so many minutes: some five minutes in all by default. Prints
the machine and the table, for bench/results/. With --record, draws the table of such a record again.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from machine import circumstances
from matplotlib.figure import Figure

import chainrule
from chainrule.base.tables import markdown_table
from chainrule.drawing.colours import GRID, INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import write_plot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.features.compare.comparison import Comparison

KINDS = ("n-gram models", "networks", "mixtures")  # in the order of their colours, as in the reports of compare


class Row(NamedTuple):
    """A model of the picture. interval: half the width of that of 95 %, in bits per byte."""

    name: str
    bits: float
    interval: float
    seconds: float

    @property
    def colour(self) -> str:
        is_ngram = re.fullmatch(r"unigram|bigram|trigram|\d+-gram", self.name)
        return LINES[0 if is_ngram else 2 if self.name.endswith("mixture") else 1].light


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", type=Path, help="the SVG to write")
    parser.add_argument("--minutes", type=float, default=0.6, help="of training, for each network")
    parser.add_argument("--record", type=Path, help="draw the table of this record, and train nothing")
    options = parser.parse_args()
    if options.record is not None:
        write_plot(ladder(rows_of_record(options.record.read_text(encoding="utf-8"))), options.picture)
        return
    comparison = chainrule.compare_families(minutes=options.minutes)
    write_plot(ladder(rows_of(comparison)), options.picture)
    print(f"{circumstances()}\n{options.minutes:g} minutes for each network\n")
    print(markdown_table(comparison.header(), comparison.rows()))
    print("\n" + "\n".join(f"- {note}" for note in comparison.footnotes()))


def rows_of(comparison: Comparison) -> list[Row]:
    rows = []
    for one in comparison.contenders:
        low, high = one.measurement.interval
        rows.append(Row(one.name, one.measurement.bits_per_byte, (high - low) / 2, one.train_seconds or 0.0))
    return rows


def rows_of_record(text: str) -> list[Row]:
    """The rows of the Markdown table of a record."""
    header, _, *rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    places = [[cell.strip() for cell in header].index(name) for name in ("model", "bits/byte", "±95 %", "train s")]
    cells = [[row[place].strip() for place in places] for row in rows]
    return [Row(name.rstrip("†"), *(float(figure.replace(",", "")) for figure in figures)) for name, *figures in cells]


def ladder(models: Sequence[Row]) -> Figure:
    """A row for each model but the uniform one: its bits per byte with the 95 % interval, and its training time."""
    rows = [row for row in models if row.name != "uniform"]
    figure = Figure(figsize=(6.0, 1.1 + 0.25 * len(rows)), layout="constrained", facecolor=PAPER.light)
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.06)  # type: ignore[union-attr]
    figure.suptitle(
        "Bits per byte of held-out text", x=0.017, ha="left", fontsize=11, fontweight="bold", color=INK.light
    )
    axes = figure.add_subplot(facecolor=PAPER.light)
    for position, row in enumerate(rows):
        ends = [row.bits - row.interval, row.bits + row.interval]
        axes.plot(ends, [position, position], color=row.colour, linewidth=2, solid_capstyle="butt")
        axes.plot([row.bits], [position], color=row.colour, marker="o", markersize=6, markeredgewidth=0)
        axes.annotate(
            f"{row.bits:.2f}",
            (ends[1], position),
            (6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=INK.light,
        )
    times = [f"{row.seconds:.2f} s" if row.seconds < 1 else f"{row.seconds:.0f} s" for row in rows]
    for position, text in enumerate(["training", *times], -1):
        side = axes.get_yaxis_transform()
        axes.text(1.0, position, text, va="center", ha="right", fontsize=9, color=QUIET.light, transform=side)
    left = 0.0
    for kind, colour in zip(KINDS, LINES, strict=False):
        word = axes.text(left, -1, f"● {kind}", va="center", fontsize=9, color=colour.light, transform=side)
        left += 0.05 + 0.0165 * len(kind)
        word.set_in_layout(False)
    axes.set_xlabel("bits per byte, with 95 % interval; lower is better", fontsize=9, color=QUIET.light)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(length=0, labelcolor=QUIET.light, labelsize=9)
    axes.grid(axis="x", color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    low, high = axes.get_xlim()
    axes.set_xticks([tick for tick in axes.get_xticks() if low <= tick <= high])
    axes.set_xlim(low, high + 0.25 * (high - low))
    return figure


if __name__ == "__main__":
    main()
