"""Plots as SVG that stands by itself or in a page: lines over numbers or named places, and bars.

Legible in light and in dark surroundings. Nothing hangs on colour alone: a line has its own mark and dashes, too, and
each point says what it is. The colours are made after Okabe and Ito, Color universal design (2008).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len

from chainrule.errors import SettingError
from chainrule.report.markup import markup_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WIDTH, HEIGHT = 680, 350  # pixels of a plot, its legend apart
LEFT, RIGHT, TOP, BOTTOM = 62, 28, 58, 50  # of its margins
LETTER, ROW = 7.2, 22  # the width of a letter, the height of a row of the legend
TICKS = 6  # about so many on an axis

# On white, and on black.
COLOURS = (
    ("#0072b2", "#5ab8f0"),
    ("#c75000", "#ff8f45"),
    ("#007a5a", "#2fcb9c"),
    ("#b0508a", "#ec9bcb"),
    ("#8f6400", "#f0c000"),
    ("#1b1b1f", "#f4f4f5"),
    ("#5b4fa8", "#b7abff"),
    ("#6f6f76", "#a5a5ad"),
)
PAPER, INK, QUIET, GRID = ("#ffffff", "#16181d"), ("#1b1b1f", "#ececf1"), ("#55555c", "#b0b0b8"), ("#e2e2e8", "#34363d")
DASHES = ("", "7 4", "2 3")
MARKS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z",
    "M-3.5-3.5h7v7h-7Z",
    "M0-4.6 4.4 3.4h-8.8Z",
    "M0-5 5 0 0 5-5 0Z",
    "M0 4.6 4.4-3.4h-8.8Z",
    "M-1.4-4.4h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3Z",
    "M-4.6-2.4 0 0l4.6-2.4v4.8L0 0l-4.6 2.4Z",
)


@dataclass(frozen=True, kw_only=True)
class Axis:
    """categories: names for the places 0, 1, ... of an axis that has no numbers."""

    label: str
    log: bool = False
    categories: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points that belong together, joined in their order; where a number is not finite, the line is broken.

    look: the number of its colour, mark and dashes, for what is in several plots; by default its place among the lines.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: int | None = None


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A bar for each category; none where its height is not finite."""

    label: str
    heights: Sequence[float]


def line_plot(title: str, lines: Sequence[Line], x: Axis, y: Axis, *, levels: Mapping[str, float] | None = None) -> str:
    """levels: what is the same everywhere, by its name: a horizontal line for each.

    Raises SettingError where there is nothing to draw, or a logarithmic axis has a number that is not positive.
    """
    levels = levels or {}
    across = _Scale(x, [value for line in lines for value in line.x], LEFT, WIDTH - RIGHT)
    up = _Scale(y, [*(value for line in lines for value in line.y), *levels.values()], HEIGHT - BOTTOM, TOP)
    looks = [place if line.look is None else line.look for place, line in enumerate(lines)]
    drawn = [_line(look, line, across, up) for look, line in zip(looks, lines, strict=True)]
    drawn += [_level(number, name, value, up) for number, (name, value) in enumerate(levels.items())]
    legend = [_Key(line.label, _line_sample(look)) for look, line in zip(looks, lines, strict=True)]
    legend += [_Key(name, f'<path {_ruled(number)} d="M0 0H24"/>') for number, name in enumerate(levels)]
    return _svg(title, [*_frame(x, y, across, up), *drawn], legend)


def bar_plot(title: str, categories: Sequence[str], bars: Sequence[Bars], y: Axis, *, x_label: str = "") -> str:
    """Bars from 0 on, side by side in each category. Raises SettingError where there is nothing to draw."""
    x = Axis(label=x_label, categories=categories)
    across = _Scale(x, [], LEFT, WIDTH - RIGHT)
    up = _Scale(
        y, [*([] if y.log else [0.0]), *(height for each in bars for height in each.heights)], HEIGHT - BOTTOM, TOP
    )
    room = 0.8 * (across(1) - across(0))
    drawn = []
    for number, each in enumerate(bars):
        boxes = []
        for place, height in enumerate(each.heights):
            if math.isfinite(height):
                left = across(place) - room / 2 + room * number / len(bars)
                top, bottom = sorted((up(height), up(max(0.0, up.low))))
                boxes.append(
                    f'<rect x="{left + 1:.1f}" y="{top:.1f}" width="{max(room / len(bars) - 2, 1):.1f}" '
                    f'height="{bottom - top:.1f}">{_told(each.label, categories[place], height)}</rect>'
                )
        drawn.append(f"<g {_filled(number)}>{''.join(boxes)}</g>")
    keys = [
        _Key(each.label, f'<rect {_filled(number)} x="6" y="-6" width="12" height="12"/>')
        for number, each in enumerate(bars)
    ]
    return _svg(title, [*_frame(x, y, across, up), *drawn], keys if len(bars) > 1 else [])


class _Scale:
    """From the numbers of an axis to pixels."""

    def __init__(self, axis: Axis, values: Sequence[float], first: float, last: float) -> None:
        """first, last: where the axis begins and ends. Raises SettingError."""
        self.log, self.first, self.last = axis.log, first, last
        if axis.categories:
            self.low, self.high = -0.5, len(axis.categories) - 0.5
            self.ticks = [(float(place), name) for place, name in enumerate(axis.categories)]
            return
        finite = [value for value in values if math.isfinite(value)]
        if not finite:
            raise SettingError(f"there is nothing to draw: {axis.label} has no finite number")
        if self.log and min(finite) <= 0:
            raise SettingError(f"{axis.label}: a logarithmic axis has no place for {min(finite):g}; leave it out")
        low, high = min(finite), max(finite)
        if low == high:
            low, high = (low / 2, high * 2) if self.log else (low - 0.5, high + 0.5)
        ticks = _decades(low, high) if self.log else _round_numbers(low, high)
        self.low, self.high = min(low, ticks[0]), max(high, ticks[-1])
        self.ticks = [(tick, _number(tick)) for tick in ticks]

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(each) if self.log else each for each in (self.low, self.high, value))
        return self.first + (self.last - self.first) * (value - low) / (high - low)


def _round_numbers(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten, from the last below `low` to the first above `high`."""
    rough = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * number for number in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; with 2 and 5 times these, or all round numbers, where they are too few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1,), (1, 2, 5)):
        ticks = [factor * 10.0**power for power in powers for factor in factors]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= 3:
            every = -(-len(inside) // (2 * TICKS))
            return inside[::every]
    return [tick for tick in _round_numbers(low, high) if low <= tick <= high] or [low, high]


def _number(value: float) -> str:
    """As short as it is clear."""
    if value and not 1e-3 <= abs(value) < 1e6:
        digits, power = f"{value:.1e}".split("e")
        return f"{digits.removesuffix('.0')}e{int(power)}"
    return f"{round(value, 10):,.10g}" if abs(value) >= 10_000 else f"{round(value, 10):.10g}"


def _frame(x: Axis, y: Axis, across: _Scale, up: _Scale) -> Iterator[str]:
    """Grid, ticks and labels."""
    bottom = HEIGHT - BOTTOM
    for tick, name in up.ticks:
        yield f'<path class="grid" stroke="{GRID[0]}" d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}"/>'
        yield _text(LEFT - 8, up(tick) + 4, name, 'text-anchor="end"')
    each = LETTER * max(cell_len(name) for _, name in across.ticks) + 8
    every = max(1, math.ceil(len(across.ticks) * each / (WIDTH - RIGHT - LEFT)))  # names must not overlap
    for tick, name in across.ticks[::every]:
        yield f'<path class="axis" stroke="{QUIET[0]}" d="M{across(tick):.1f} {bottom}v4"/>'
        yield _text(across(tick), bottom + 18, name, 'text-anchor="middle"')
    yield f'<path class="axis" stroke="{QUIET[0]}" d="M{LEFT} {bottom}H{WIDTH - RIGHT}"/>'
    yield _text((LEFT + WIDTH - RIGHT) / 2, bottom + 38, x.label, 'text-anchor="middle"')
    yield _text(12, TOP - 14, y.label)


def _line(number: int, line: Line, across: _Scale, up: _Scale) -> str:
    points = [
        (across(x), up(y), x, y) if math.isfinite(x) and math.isfinite(y) else None
        for x, y in zip(line.x, line.y, strict=True)
    ]
    path, pen = "", "M"
    for point in points:
        path += f"{pen}{point[0]:.1f} {point[1]:.1f}" if point else ""
        pen = "L" if point else "M"
    marks = "".join(
        f'<path transform="translate({point[0]:.1f} {point[1]:.1f})" d="{MARKS[number % len(MARKS)]}">'
        f"{_told(line.label, _number(point[2]), point[3])}</path>"
        for point in points
        if point
    )
    return f'<g {_stroked(number)}><path d="{path}"/></g><g {_filled(number)}>{marks}</g>'


def _level(number: int, name: str, value: float, up: _Scale) -> str:
    path = (
        f'<path d="M{LEFT} {up(value):.1f}H{WIDTH - RIGHT}">{_told(name, "", value)}</path>'
        if math.isfinite(value)
        else ""
    )
    return f"<g {_ruled(number)}>{path}</g>"


def _told(label: str, place: str, value: float) -> str:
    """What a point is, for those who point at it, or hear it."""
    return f"<title>{markup_text(': '.join(filter(None, (label, place, f'{value:.4g}'))))}</title>"


@dataclass(frozen=True)
class _Key:
    """An entry of the legend."""

    label: str
    sample: str  # at the place where its line is 24 pixels long

    @property
    def width(self) -> float:
        return 32 + LETTER * cell_len(self.label) + 18


def _line_sample(look: int) -> str:
    mark = f'<path {_filled(look)} transform="translate(12 0)" d="{MARKS[look % len(MARKS)]}"/>'
    return f'<path {_stroked(look)} d="M0 0H24"/>{mark}'


def _legend(keys: Sequence[_Key]) -> tuple[list[str], int]:
    """The entries, side by side as far as there is room; and the number of rows."""
    placed, left, row = [], float(LEFT), 0
    for key in keys:
        if left > LEFT and left + key.width > WIDTH:
            left, row = float(LEFT), row + 1
        middle = HEIGHT + ROW * (row + 0.4)
        placed.append(f'<g transform="translate({left:.1f} {middle:.1f})">{key.sample}{_text(32, 4, key.label)}</g>')
        left += key.width
    return placed, row + 1 if keys else 0


def _svg(title: str, drawn: Sequence[str], keys: Sequence[_Key]) -> str:
    legend, rows = _legend(keys)
    height = HEIGHT + ROW * rows
    parts = [
        f'<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{markup_text(title)}" font-family="system-ui, sans-serif" font-size="13">',
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{height}" fill="{PAPER[0]}"/>',
        f'<text class="ink" x="12" y="22" fill="{INK[0]}" font-size="15" font-weight="600">{markup_text(title)}</text>',
        *drawn,
        *legend,
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _text(left: float, base: float, text: str, more: str = "") -> str:
    return f'<text class="quiet" x="{left:.1f}" y="{base:.1f}" fill="{QUIET[0]}" {more}>{markup_text(text)}</text>'


def _stroked(number: int) -> str:
    colour = number % len(COLOURS)
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return (
        f'class="stroke{colour}" stroke="{COLOURS[colour][0]}" stroke-width="2" stroke-dasharray="{dashes}" fill="none"'
    )


def _ruled(number: int) -> str:
    """A level is of no colour."""
    return f'class="axis" stroke="{QUIET[0]}" stroke-width="2" stroke-dasharray="{DASHES[number % len(DASHES)]}"'


def _filled(number: int) -> str:
    colour = number % len(COLOURS)
    return f'class="fill{colour}" fill="{COLOURS[colour][0]}"'


# The attributes say what holds in light surroundings, and for programs that know no style sheets.
_IN_THE_DARK = {
    **{f"stroke{number}": f"stroke:{dark}" for number, (_, dark) in enumerate(COLOURS)},
    **{f"fill{number}": f"fill:{dark}" for number, (_, dark) in enumerate(COLOURS)},
    "paper": f"fill:{PAPER[1]}",
    "ink": f"fill:{INK[1]}",
    "quiet": f"fill:{QUIET[1]}",
    "axis": f"stroke:{QUIET[1]}",
    "grid": f"stroke:{GRID[1]}",
}
_STYLE = (
    "@media (prefers-color-scheme:dark){"
    + "".join(f".plot .{name}{{{rule}}}" for name, rule in _IN_THE_DARK.items())
    + "}"
)
