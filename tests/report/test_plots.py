from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest

from chainrule.errors import SettingError
from chainrule.report.plots import (
    BOTTOM,
    COLOURS,
    HEIGHT,
    INK,
    LEFT,
    PAPER,
    QUIET,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Bars,
    Line,
    bar_plot,
    line_plot,
)

SVG = "{http://www.w3.org/2000/svg}"
SECONDS, BITS = Axis(label="seconds"), Axis(label="bits")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def lines_of(svg: str) -> list[list[list[float]]]:
    """Of each line its parts, and of each part the numbers of its path."""
    groups = [g for g in ElementTree.fromstring(svg).iter(f"{SVG}g") if g.get("stroke")]
    paths = [path.get("d") or "" for group in groups for path in group]
    return [[[float(x) for x in re.findall(r"[\d.]+", part)] for part in path.split("M")[1:]] for path in paths]


def test_points_stand_where_the_axes_say() -> None:
    svg = line_plot("t", [Line(label="a", x=[0, 5, 10], y=[1, 3, 2])], SECONDS, BITS)
    left, right, bottom, top = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM, TOP
    assert lines_of(svg) == [[[left, bottom, (left + right) / 2, top, right, (bottom + top) / 2]]]


def test_equal_ratios_are_equally_far_on_a_logarithmic_axis() -> None:
    axis = Axis(label="n", log=True)
    svg = line_plot("t", [Line(label="a", x=[1, 10, 1000], y=[1000, 10, 1])], axis, axis)
    [[[x1, y1, x2, y2, x3, y3]]] = lines_of(svg)
    assert (x3 - x2) == pytest.approx(2 * (x2 - x1), abs=0.2)
    assert (y2 - y1) == pytest.approx(2 * (y3 - y2), abs=0.2)
    assert {"1", "10", "100", "1000"} <= set(texts(svg))


def test_a_line_is_broken_where_a_number_is_missing() -> None:
    svg = line_plot("t", [Line(label="a", x=[0, 1, 2, 3], y=[1, 2, math.nan, 2])], SECONDS, BITS)
    assert [len(part) for part in lines_of(svg)[0]] == [4, 2]


def test_a_level_goes_from_side_to_side() -> None:
    svg = line_plot("t", [Line(label="a", x=[0, 1], y=[0, 2])], SECONDS, BITS, levels={"n-gram": 1})
    assert lines_of(svg)[1] == [[LEFT, (HEIGHT - BOTTOM + TOP) / 2, WIDTH - RIGHT]]


def test_bars_are_as_high_as_they_say_and_begin_at_zero() -> None:
    svg = bar_plot("t", ["x", "y"], [Bars(label="a", heights=[1, 4]), Bars(label="b", heights=[2, math.nan])], BITS)
    boxes = [box for box in ElementTree.fromstring(svg).iter(f"{SVG}rect") if box.find(f"{SVG}title") is not None]
    heights = [float(box.get("height") or 0) for box in boxes]
    assert heights == pytest.approx([heights[1] / 4, heights[1], heights[1] / 2], abs=0.1)
    assert {float(box.get("y") or 0) + float(box.get("height") or 0) for box in boxes} == {HEIGHT - BOTTOM}


def test_all_labels_are_there_and_none_is_markup() -> None:
    names = [f"<b>{number}&\x00\ud800" for number in range(20)]
    svg = line_plot("<t>", [Line(label=name, x=[0, 1], y=[1, 2]) for name in names], SECONDS, Axis(label='"y"'))
    assert {"<t>", "seconds", '"y"', *(f"<b>{number}&��" for number in range(20))} <= set(texts(svg))


def test_lines_differ_by_more_than_colour() -> None:
    svg = line_plot("t", [Line(label=str(number), x=[0], y=[number]) for number in range(24)], SECONDS, BITS)
    groups = [group for group in ElementTree.fromstring(svg).iter(f"{SVG}g") if group.get("transform") is None]
    looks = {
        (stroke.get("stroke"), stroke.get("stroke-dasharray"), fill.findall(f"{SVG}path")[0].get("d"))
        for stroke, fill in zip(groups[::2], groups[1::2], strict=True)
    }
    assert len(looks) == 24
    assert len({mark for _, _, mark in looks}) == 7


def test_what_is_in_several_plots_keeps_its_look() -> None:
    one = line_plot("t", [Line(label="b", x=[0], y=[1], look=1)], SECONDS, BITS)
    both = line_plot("t", [Line(label=name, x=[0], y=[1]) for name in "ab"], SECONDS, BITS)
    assert COLOURS[1][0] in one
    assert COLOURS[1][0] in both
    assert COLOURS[0][0] not in one


def test_names_of_many_categories_do_not_overlap() -> None:
    names = [f"{1 << number}-{2 << number}" for number in range(40)]
    axis = Axis(label="position", categories=names)
    shown = texts(line_plot("t", [Line(label="a", x=range(40), y=range(40))], axis, BITS))
    assert 2 <= len(set(names) & set(shown)) < 20


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf]])
def test_nothing_to_draw_is_told(values: list[float]) -> None:
    with pytest.raises(SettingError, match="bits has no finite number"):
        line_plot(
            "t", [Line(label="a", x=[1] * len(values), y=values), Line(label="b", x=[1], y=[math.nan])], SECONDS, BITS
        )


def test_a_logarithmic_axis_refuses_zero() -> None:
    with pytest.raises(SettingError, match="n: a logarithmic axis has no place for 0"):
        line_plot("t", [Line(label="a", x=[0, 1], y=[1, 2])], Axis(label="n", log=True), BITS)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-9, 1e9])
def test_one_value_is_drawn_too(value: float) -> None:
    assert lines_of(line_plot("t", [Line(label="a", x=[value], y=[value])], SECONDS, BITS))


def test_every_colour_stands_out_in_both_surroundings() -> None:
    for light, dark in COLOURS:
        assert contrast(light, PAPER[0]) >= 3.5  # WCAG asks for 3 of graphics
        assert contrast(dark, PAPER[1]) >= 3.5
    for light, dark in (INK, QUIET):
        assert contrast(light, PAPER[0]) >= 4.5  # and for 4.5 of text
        assert contrast(dark, PAPER[1]) >= 4.5


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
