"""The colours of plots, pages and drawings, for light and dark mode.

The colours of lines are based on Okabe and Ito, Color universal design (2008).
"""

from __future__ import annotations

from typing import NamedTuple


class Colour(NamedTuple):
    light: str
    dark: str


PAPER, INK, QUIET = Colour("#ffffff", "#16181d"), Colour("#1b1b1f", "#ececf1"), Colour("#55555c", "#b0b0b8")
GRID = Colour("#e2e2e8", "#34363d")
LINES = (
    Colour("#0072b2", "#5ab8f0"),
    Colour("#c75000", "#ff8f45"),
    Colour("#007a5a", "#2fcb9c"),
    Colour("#b0508a", "#ec9bcb"),
    Colour("#8f6400", "#f0c000"),
    INK,
    Colour("#5b4fa8", "#b7abff"),
    Colour("#6f6f76", "#a5a5ad"),
)

# By their names in style sheets.
COLOURS = {
    "paper": PAPER,
    "ink": INK,
    "quiet": QUIET,
    "grid": GRID,
    "edge": Colour("#d8d8de", "#3c3e46"),
    "link": Colour("#0060a0", "#7cc4f5"),
    "row": Colour("#e6f2fb", "#17344a"),  # of the best model
    **{f"line-{i}": colour for i, colour in enumerate(LINES) if colour is not INK},
    # Groups of ranks, from likely to unlikely, behind text.
    "rank-0": Colour("#c3e6bf", "#1f4d2b"),
    "rank-1": Colour("#fbe9a0", "#574800"),
    "rank-2": Colour("#f7beb6", "#6b2a22"),
    "rank-3": Colour("#dbc6f0", "#4b3170"),
    # Boxes of a beam's tree: fill, border and text.
    "best": Colour("#1d4ed8", "#3b6cf0"),
    "best-edge": Colour("#1d4ed8", "#7ea2ff"),
    "best-ink": Colour("#ffffff", "#ffffff"),
    "finished": Colour("#d1fae5", "#0c3b2c"),
    "finished-edge": Colour("#059669", "#2fbf8f"),
    "finished-ink": Colour("#065f46", "#a7f0d2"),
    "kept": Colour("#e0e7ff", "#262b52"),
    "kept-edge": Colour("#818cf8", "#7a84e8"),
    "kept-ink": Colour("#312e81", "#cdd2ff"),
    "greedy": Colour("#ffedd5", "#43220d"),
    "greedy-edge": Colour("#ea580c", "#fb923c"),
    "greedy-ink": Colour("#7c2d12", "#fed7aa"),
    "pruned": Colour("#ffffff", "#1c1e24"),
    "pruned-edge": Colour("#d4d4d8", "#4a4c55"),
    "pruned-ink": Colour("#71717a", "#9b9ba5"),
}
