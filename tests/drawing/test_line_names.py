"""Names beside lines and points: all are in the picture, and none lies on another, on a marker or on an interval."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import pytest
from matplotlib.text import Text

from chainrule.drawing.colours import LINES
from chainrule.drawing.line_names import spread
from chainrule.drawing.plots import Axis, Line, line_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

X, Y = Axis(label="x"), Axis(label="y")


def names_of(figure: Figure) -> list[Text]:
    """The names in the axes, once the picture is drawn."""
    figure.draw_without_rendering()
    return list(figure.axes[0].texts)


def check_apart(figure: Figure) -> None:
    boxes = [Text.get_window_extent(name) for name in names_of(figure)]  # without the lines to them
    assert all(figure.bbox.contains(*corner) for box in boxes for corner in (box.min, box.max))
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


@pytest.mark.parametrize(
    ("wanted", "places"),
    [
        ([0.2, 0.8], [0.2, 0.8]),
        ([0.5, 0.5], [0.45, 0.55]),
        ([0.0, 0.0, 0.9], [0.0, 0.1, 0.9]),
        ([1.0, 1.0], [0.9, 1.0]),
        ([0.4, 0.44, 0.48], [0.34, 0.44, 0.54]),
    ],
)
def test_places_are_a_pitch_apart_and_near_those_wanted(wanted: list[float], places: list[float]) -> None:
    assert spread(wanted, 0.1) == pytest.approx(places)


def test_more_names_than_there_is_place_for_are_even() -> None:
    assert spread([0.5, 0.5, 0.5], 0.8) == pytest.approx([0.0, 0.5, 1.0])


@pytest.mark.parametrize("count", [1, 15, 40])
def test_names_of_lines_that_end_together_are_apart(count: int) -> None:
    lines = [Line(label=f"a model of {number}", x=[0, 1], y=[number, 1]) for number in range(count)]
    check_apart(line_plot("t", lines, X, Y, levels={"a level": 1.0}))


def test_a_name_is_as_high_as_the_end_of_its_line() -> None:
    figure = line_plot("t", [Line(label=str(y), x=[0, 1], y=[0, y]) for y in (0, 5, 10)], X, Y)
    for name, y in zip(names_of(figure), (0, 5, 10), strict=True):
        box = Text.get_window_extent(name)
        assert (box.y0 + box.y1) / 2 == pytest.approx(figure.axes[0].transData.transform((1, y))[1], abs=1)


def test_names_of_points_are_beside_them() -> None:
    points = [("a", 2.15, 22.0), ("b", 2.126, 22.3), ("c", 2.21, 32.0), ("d", 0.99, 42.4), ("e", 2.35, 13.3)]
    lines = [Line(label="fit", x=[0.99, 2.35], y=[43, 20], style="fit")]
    lines += [Line(label=name, x=[x], y=[y], intervals=[(y - 7, y + 7)]) for name, x, y in points]
    figure = line_plot("t", lines, X, Y)
    check_apart(figure)
    [axes] = figure.axes
    markers = [axes.transData.transform((x, y)) for _, x, y in points]
    for name in names_of(figure)[1:]:
        box, own = Text.get_window_extent(name), axes.transData.transform(name.xy)  # type: ignore[attr-defined]
        assert max(box.x0 - own[0], own[0] - box.x1) < 20
        assert not any(box.contains(*marker) for marker in markers)
        bars = [axes.transData.transform(bars.get_segments()[0]) for bars in axes.collections]  # type: ignore[attr-defined]
        assert not any(box.x0 <= x <= box.x1 and low < box.y1 and high > box.y0 for (x, low), (_, high) in bars)


def test_a_line_through_points_has_no_markers_and_quiet_ones_are_grey() -> None:
    lines = [Line(label=style, x=[0, 1], y=[0, 1], style=style) for style in ("plain", "fit", "quiet")]  # type: ignore[arg-type]
    plain, fit, quiet = line_plot("t", lines, X, Y).axes[0].lines
    assert (plain.get_marker(), fit.get_marker()) == ("o", "None")
    assert quiet.get_color() == fit.get_color() == LINES[-1].light
    assert quiet.get_linewidth() < plain.get_linewidth()


def test_a_line_under_others_is_wider_there() -> None:
    """As at 1.0 in the picture of agreement: one of three ran on its own from 2 on."""
    rows = {"a": [1, 1, 0], "b": [1, 1, 1], "c": [1, 1, 1], "d": [0, 0.5, 0.2]}
    lines = [Line(label=name, x=[0, 1, 2], y=y) for name, y in rows.items()]
    [axes] = line_plot("t", lines, X, Y).axes
    wide = [(one.get_color()[0].tolist(), one.get_segments()[0][:, 0].tolist()) for one in axes.collections]  # type: ignore[attr-defined]
    widths = [one.get_linewidth()[0] for one in axes.collections]
    assert [x for _, x in wide] == [[0, 1], [0, 1], [1, 2]]
    assert [colour for colour, _ in wide] == [wide[0][0], wide[1][0], wide[1][0]]
    assert widths[0] > widths[1] == widths[2] > axes.lines[0].get_linewidth()
