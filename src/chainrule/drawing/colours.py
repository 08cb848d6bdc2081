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

# Of weights and surprisals: from that of the paper, none, in even steps to the most. They contrast the more
# with the paper, in either mode. The hues are about those of matplotlib's inferno.
HEAT = (
    PAPER,
    Colour("#fff0b3", "#3d2158"),
    Colour("#fdc35c", "#7d2565"),
    Colour("#f2853c", "#bb3a56"),
    Colour("#cf3d4b", "#e56b3d"),
    Colour("#8a1f63", "#f7a845"),
    Colour("#3a0f4d", "#fdec9a"),
)


def heat(share: float) -> Colour:
    """Return the colour of a share; 0 and 1, and all numbers beyond them, have the first colour and the last."""
    place = min(max(share, 0.0), 1.0) * (len(HEAT) - 1)
    below = min(int(place), len(HEAT) - 2)
    return Colour(*(between(a, b, place - below) for a, b in zip(HEAT[below], HEAT[below + 1], strict=True)))


def between(first: str, second: str, share: float) -> str:
    """Return a colour on the line from one to another."""
    values = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in values)


def ink_on(colour: str) -> str:
    """Return black or white, whichever is easier to read on a colour: its contrast is at least 4.58, by WCAG 2."""
    return "#000000" if luminance(colour) > 0.179 else "#ffffff"


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour, from 0 to 1, by WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


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
    **{f"heat-{i}": colour for i, colour in enumerate(HEAT)},
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
