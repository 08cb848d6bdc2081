"""Plots: matplotlib's figures, and SVG of them for light and dark, in which nothing of others is markup."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from chainrule.drawing.colours import COLOURS, INK, LINES, PAPER, QUIET
from chainrule.drawing.plots import SUFFIXES, Axis, Line, line_plot, svg_of, write_plot
from chainrule.errors import SettingError

SVG = "{http://www.w3.org/2000/svg}"
SECONDS, BITS = Axis(label="seconds"), Axis(label="bits")


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def hints(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def groups_of_lines(svg: str) -> list[ElementTree.Element]:
    """The group of each line in the axes: those that hold points with hints."""
    root = ElementTree.fromstring(svg)
    return [group for group in root.iter(f"{SVG}g") if group.find(f"{SVG}g/{SVG}use/{SVG}title") is not None]


def points_of(svg: str) -> list[list[tuple[float, float]]]:
    """Of each line the positions of its markers in the picture."""
    return [
        [(float(use.get("x") or 0), float(use.get("y") or 0)) for use in group.iter(f"{SVG}use")]
        for group in groups_of_lines(svg)
    ]


def test_points_stand_where_the_axes_say() -> None:
    svg = svg_of(line_plot("t", [Line(label="a", x=[0, 5, 10], y=[1, 3, 2])], SECONDS, BITS))
    [[(x1, y1), (x2, y2), (x3, y3)]] = points_of(svg)
    assert x2 - x1 == pytest.approx(x3 - x2)
    assert y1 - y2 == pytest.approx(2 * (y3 - y2))  # SVG counts from the top
    assert x1 < x2
    assert y1 > y2
    root = ElementTree.fromstring(svg)
    ticks = {text.text: float(text.get("x") or 0) for text in root.iter(f"{SVG}text")}
    assert ticks["0"] == pytest.approx(x1)
    assert ticks["10"] == pytest.approx(x3)
    assert hints(svg) == ["a: 0: 1", "a: 5: 3", "a: 10: 2"]


def test_equal_ratios_are_equally_far_on_a_logarithmic_axis() -> None:
    axis = Axis(label="n", log=True)
    svg = svg_of(line_plot("t", [Line(label="a", x=[1, 10, 1000], y=[1000, 10, 1])], axis, axis))
    [[(x1, y1), (x2, y2), (x3, y3)]] = points_of(svg)
    assert (x3 - x2) == pytest.approx(2 * (x2 - x1))
    assert (y2 - y1) == pytest.approx(2 * (y3 - y2))
    assert {"1", "10", "100", "1000"} <= set(texts(svg))


def test_a_narrow_logarithmic_axis_has_ticks_too() -> None:
    axis = Axis(label="n", log=True)
    svg = svg_of(line_plot("t", [Line(label="a", x=[300, 900], y=[1, 2])], axis, BITS))
    assert {"500"} <= set(texts(svg))


def test_ticks_between_whole_numbers_are_whole() -> None:
    """An n-gram model of order 1.5 does not exist."""
    orders, shares = (
        line_plot("t", [Line(label="a", x=x, y=[0.5, 0.7, 0.9])], Axis(label="x"), Axis(label="y"))
        for x in ([1, 2, 3], [0.1, 0.2, 0.3])
    )
    assert [tick for tick in orders.axes[0].get_xticks() if 1 <= tick <= 3] == [1, 2, 3]
    assert any(tick % 1 for tick in shares.axes[0].get_xticks())


def test_a_line_is_broken_where_a_number_is_missing() -> None:
    svg = svg_of(line_plot("t", [Line(label="a", x=[0, 1, 2, 3], y=[1, 2, math.nan, 2])], SECONDS, BITS))
    assert hints(svg) == ["a: 0: 1", "a: 1: 2", "a: 3: 2"]
    [group] = groups_of_lines(svg)
    assert re.findall("[A-Z]", group.find(f"{SVG}path").get("d")) == ["M", "L", "M"]  # type: ignore[union-attr, arg-type]


def test_intervals_are_upright_bars() -> None:
    figure = line_plot("t", [Line(label="a", x=[1, 2], y=[3, 5], intervals=[(2, 4), (1, 9)])], SECONDS, BITS)
    [axes] = figure.axes
    assert [bar.tolist() for bar in axes.collections[0].get_segments()] == [[[1, 2], [1, 4]], [[2, 1], [2, 9]]]
    figure.draw_without_rendering()
    assert axes.get_ylim()[1] >= 9


def test_a_level_goes_from_side_to_side() -> None:
    figure = line_plot("t", [Line(label="a", x=[0, 1], y=[0, 2])], SECONDS, BITS, levels={"n-gram": 1})
    [axes] = figure.axes
    _, level = axes.lines
    figure.draw_without_rendering()
    ends = axes.transAxes.inverted().transform(level.get_transform().transform(level.get_xydata()))
    assert ends.tolist() == [pytest.approx([0, 0.5]), pytest.approx([1, 0.5])]
    assert "n-gram" in texts(svg_of(figure))


def test_all_labels_are_there_and_none_is_markup() -> None:
    names = [f"<b>{number}&$x$\x00\ud800" for number in range(20)]
    lines = [Line(label=name, x=[0, 1], y=[1, 2]) for name in names]
    svg = svg_of(line_plot("<t>", lines, SECONDS, Axis(label='"y"')))
    assert {"<t>", "seconds", '"y"', *(f"<b>{number}&$x$��" for number in range(20))} <= set(texts(svg))
    assert "<b>" not in svg


def test_a_long_name_is_shortened_beside_its_line_alone() -> None:
    name = "folder/" * 40 + "model"
    svg = svg_of(line_plot("t", [Line(label=name, x=[0], y=[1])], SECONDS, BITS))
    assert f"…{name[-59:]}" in texts(svg)
    assert hints(svg) == [f"{name}: 0: 1"]


def test_names_in_other_scripts_need_no_warning() -> None:
    assert "日本語" in texts(svg_of(line_plot("t", [Line(label="日本語", x=[0], y=[1])], SECONDS, BITS)))


def test_lines_differ_by_more_than_colour() -> None:
    lines = [Line(label=str(number), x=[0], y=[number]) for number in range(24)]
    [axes] = line_plot("t", lines, SECONDS, BITS).axes
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines}
    assert len(looks) == 24
    assert len({marker for _, _, marker in looks}) == 7


def test_what_is_in_several_plots_keeps_its_look() -> None:
    one = svg_of(line_plot("t", [Line(label="b", x=[0], y=[1], look=1)], SECONDS, BITS))
    both = svg_of(line_plot("t", [Line(label=name, x=[0], y=[1]) for name in "ab"], SECONDS, BITS))
    assert LINES[1].light in one
    assert LINES[1].light in both
    assert LINES[0].light not in one


def test_names_of_many_categories_do_not_overlap() -> None:
    names = [f"{1 << number}-{2 << number}" for number in range(40)]
    axis = Axis(label="position", categories=names)
    svg = svg_of(line_plot("t", [Line(label="a", x=range(40), y=range(40))], axis, BITS))
    assert 2 <= len(set(names) & set(texts(svg))) < 20
    assert hints(svg)[3] == "a: 8-16: 3"


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf]])
def test_nothing_to_draw_is_an_error(values: list[float]) -> None:
    with pytest.raises(SettingError, match="bits has no finite value"):
        line_plot(
            "t", [Line(label="a", x=[1] * len(values), y=values), Line(label="b", x=[1], y=[math.nan])], SECONDS, BITS
        )


def test_a_logarithmic_axis_refuses_zero() -> None:
    with pytest.raises(SettingError, match="n: a logarithmic axis cannot show 0"):
        line_plot("t", [Line(label="a", x=[0, 1], y=[1, 2])], Axis(label="n", log=True), BITS)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5, 1e-9, 1e9])
def test_one_value_is_drawn_too(value: float) -> None:
    assert points_of(svg_of(line_plot("t", [Line(label="a", x=[value], y=[value])], SECONDS, BITS)))


def test_every_colour_has_another_in_the_dark() -> None:
    svg = svg_of(line_plot("t", [Line(label=str(i), x=[0, 1], y=[i, 2]) for i in range(8)], SECONDS, BITS))
    dark = dict(re.findall(r"\.drawing \.((?:fill|stroke)-[\w-]+) \{ \w+: (#\w+) \}", svg))
    for element in ElementTree.fromstring(svg).iter():
        assert "style" not in element.attrib
        for kind in ("fill", "stroke"):
            colour = element.get(kind)
            if colour not in (None, "none"):
                [name] = [name for name in (element.get("class") or "").split() if name.startswith(kind)]
                assert COLOURS[name.removeprefix(f"{kind}-")] == (colour, dark[name])


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_have_the_format_of_their_names_and_are_reproducible(suffix: str, tmp_path) -> None:
    for name in ("one", "two"):
        figure = line_plot("t", [Line(label="a", x=[0, 1], y=[1, 2])], SECONDS, BITS)
        write_plot(figure, tmp_path / f"{name}{suffix}")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    assert one.startswith({".pdf": b"%PDF-", ".png": b"\x89PNG\r\n", ".svg": b"<svg "}[suffix])


def test_a_plot_of_another_kind_is_refused(tmp_path) -> None:
    figure = line_plot("t", [Line(label="a", x=[0, 1], y=[1, 2])], SECONDS, BITS)
    with pytest.raises(SettingError, match=r"plot.gif: the name of a plot must end in .pdf, .png or .svg"):
        write_plot(figure, tmp_path / "plot.gif")


def test_matplotlib_is_imported_when_something_is_drawn_and_pyplot_never() -> None:
    program = """
import sys
from chainrule.drawing.plots import Axis, Line, line_plot, svg_of
assert not {name for name in sys.modules if name.partition(".")[0] in ("matplotlib", "jinja2")}
svg_of(line_plot("t", [Line(label="a", x=[0], y=[1])], Axis(label="x"), Axis(label="y")))
assert "matplotlib" in sys.modules
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_matplotlib_a_plot_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SettingError, match=r"not installed: pip install 'chainrule\[report\]'"):
        line_plot("t", [Line(label="a", x=[0], y=[1])], SECONDS, BITS)


def test_every_colour_stands_out_in_both_surroundings() -> None:
    for light, dark in LINES:
        assert contrast(light, PAPER.light) >= 3.5  # WCAG asks for 3 of graphics
        assert contrast(dark, PAPER.dark) >= 3.5
    for light, dark in (INK, QUIET):
        assert contrast(light, PAPER.light) >= 4.5  # and for 4.5 of text
        assert contrast(dark, PAPER.dark) >= 4.5
    for kind in ("best", "finished", "kept", "pruned"):
        text, box = COLOURS[f"{kind}-ink"], COLOURS[kind]
        assert contrast(text.light, box.light) >= 4.5
        assert contrast(text.dark, box.dark) >= 4.5


def contrast(one: str, other: str) -> float:
    """As WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        red, green, blue = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
