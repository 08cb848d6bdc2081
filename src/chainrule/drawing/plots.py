"""Line plots as matplotlib figures and as files: SVG for pages, in light and dark mode; PDF and PNG for papers.

Matplotlib is imported only when something is drawn; pyplot, which keeps state, is never imported. SVG for pages has
real text, and colours by class, so that dark mode can change them: `style` attributes become presentation attributes,
which style sheets override; unused identifiers are removed.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Literal
from xml.etree import ElementTree

import numpy as np
from rich.cells import cell_len

from chainrule.base.files import check_new_file, replace_file
from chainrule.base.tables import cell
from chainrule.drawing.colours import COLOURS, GRID, INK, LINES, PAPER, QUIET
from chainrule.drawing.line_names import write_names
from chainrule.drawing.pages import render, xml_text
from chainrule.errors import SettingError, installing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as DrawnAxis
    from matplotlib.figure import Figure

SUFFIXES = (".pdf", ".png", ".svg")
WIDTH, HEIGHT = 6.8, 3.5  # inches
_LETTER = 0.078  # the width of a letter, in inches
_LONGEST = 60  # the most columns of a name beside a line
_AT_END = 28  # columns of names that are a part of WIDTH
_NO_GLYPH = "Glyph .* missing from font"  # a warning: names may be in any script
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", (0, (5, 2.5)), (0, (1, 1.5)))
PHOTOGRAPH = (
    "photograph"  # the identifier of an image that keeps its colours in the dark; those of figures are inverted
)
# Without dates and versions, so that equal plots are equal files.
_METADATA: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
    "svg": {"Date": None},
}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis of a plot. categories: names for the positions 0, 1, ... of an axis without numbers."""

    label: str
    log: bool = False
    categories: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points that are joined in order; the line breaks where y is not finite.

    look: an index that selects colour, marker and dashes, so that a line looks the same in several plots; by default,
    its index in the plot. style: quiet lines are thin and grey; fits, through points of others, have no markers.
    intervals: the lower and the upper bound of each y, drawn as upright bars.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    look: int | None = None
    style: Literal["plain", "quiet", "fit"] = "plain"
    intervals: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A line plot, also as a table for those who cannot see it.

    name: that of its file. explained: a sentence or two below it. levels: horizontal lines, by their names.
    """

    name: str
    title: str
    explained: str
    lines: Sequence[Line]
    x: Axis
    y: Axis
    levels: Mapping[str, float] = field(default_factory=dict)

    @property
    def full_title(self) -> str:
        return f"{self.y.label[:1].upper()}{self.y.label[1:]} by {self.x.label}"

    def figure(self) -> Figure:
        return line_plot(self.full_title, self.lines, self.x, self.y, levels=self.levels)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header, and a row for each line if x has categories, otherwise for each point."""
        if self.x.categories:
            rows = [[line.label, *(cell(y, ".4f") for y in line.y)] for line in self.lines]
            return ["model", *self.x.categories], rows
        rows = [
            [line.label, f"{x:.1f}", cell(y, ".4f")] for line in self.lines for x, y in zip(line.x, line.y, strict=True)
        ]
        rows += [[name, "", cell(value, ".4f")] for name, value in self.levels.items()]
        return ["model", self.x.label, self.y.label], rows


def has_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def check_matplotlib() -> None:
    """Raise SettingError if matplotlib is not installed."""
    if not has_matplotlib():
        raise SettingError(f"plots need matplotlib, which is not installed: {installing('report')}")


def line_plot(
    title: str, lines: Sequence[Line], x: Axis, y: Axis, *, levels: Mapping[str, float] | None = None
) -> Figure:
    """Return a figure with these lines. levels: horizontal lines, by their names.

    Raises SettingError if there is nothing to draw, a logarithmic axis has a value that is not positive, or matplotlib
    is missing.
    """
    levels = levels or {}
    _check(x, [value for line in lines for value in line.x])
    bounds = [bound for line in lines for interval in line.intervals for bound in interval]
    _check(y, [*(value for line in lines for value in line.y), *bounds, *levels.values()])
    check_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    names = [_short(xml_text(name)) for name in (*(line.label for line in lines), *levels)]
    longest = max(map(cell_len, names))
    size = (WIDTH + _LETTER * max(0, longest - _AT_END), max(HEIGHT, 0.9 + 0.165 * len(names)))
    with rc_context({"text.parse_math": False, "axes.formatter.use_mathtext": False}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        figure = Figure(figsize=size, layout="constrained", facecolor=PAPER.light)
        axes = figure.add_subplot(facecolor=PAPER.light)
        axes.set_title(xml_text(title), loc="left", fontsize=11, fontweight="bold", color=INK.light)
        for i, line in enumerate(lines):
            _draw(axes, i if line.look is None else line.look, line)
        _widen_hidden(axes, lines, is_log=y.log)
        for i, (name, value) in enumerate(levels.items()):
            dashes = _DASHES[i % len(_DASHES)]
            axes.axhline(value, color=INK.light, linestyle=dashes, linewidth=1.5, label=xml_text(name))
        _frame(axes, x, y, WIDTH - 1.1 - _LETTER * min(longest, _AT_END))
        if not (x.log or x.categories) and all(float(value).is_integer() for line in lines for value in line.x):
            axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, steps=[1, 2, 5, 10]))
        write_names(figure, axes, names)
    return figure


def write_plot(figure: Figure, path: Path) -> None:
    """Write a file in the format of the name's suffix: .pdf, .png or .svg. Raises OutputError, SettingError."""
    check_plot_name(path)
    kind = path.suffix.lower().removeprefix(".")
    data = svg_of(figure).encode() if kind == "svg" else _saved(figure, kind)
    with replace_file(path) as file:
        file.write(data)


def check_plot_name(path: Path) -> None:
    """Raise SettingError if a name does not have the suffix of a plot."""
    if path.suffix.lower() not in SUFFIXES:
        raise SettingError(f"{path}: the name of a plot must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


PICTURE_SUFFIXES = (".html", ".svg", ".png")


def check_picture_target(path: Path, *, overwrite: bool) -> None:
    """Check, before the work, that such a file may be written. Raises OutputError, SettingError."""
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise SettingError(f"{path}: the name of a page or a picture must end in .html, .svg or .png")
    if path.suffix.lower() != ".html":
        check_matplotlib()
    check_new_file(path, overwrite=overwrite)


def svg_of(figure: Figure) -> str:
    """Return an SVG for light and dark mode; a page may contain several."""
    return restyle(_saved(figure, "svg"), figure)


def _saved(figure: Figure, kind: str) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    title = figure.axes[0].get_title(loc="left")
    with (
        rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "pdf.fonttype": 42, "path.simplify": False}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message=_NO_GLYPH)
        figure.savefig(file, format=kind, dpi=200, metadata=_METADATA[kind])
    return file.getvalue()


def _check(axis: Axis, values: Sequence[float]) -> None:
    """Raise SettingError if the axis cannot show the values."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        raise SettingError(f"there is nothing to draw: {axis.label} has no finite value")
    if axis.log and min(finite) <= 0:
        raise SettingError(f"{axis.label}: a logarithmic axis cannot show {min(finite):g}; expected values above 0")


def _widen_hidden(axes: Axes, lines: Sequence[Line], *, is_log: bool) -> None:
    """Widen each line where later ones run along it, so that it is seen on both sides of them."""
    from matplotlib.collections import LineCollection

    points = [[(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)] for line in lines]
    scaled = [{x: math.log(y) if is_log else y for x, y in line} for line in points]
    values = [value for line in scaled for value in line.values()] or [0.0]
    near = 0.01 * (max(values) - min(values))
    shown = [i for i, line in enumerate(lines) if line.style == "plain"]
    for i in shown:
        for ends in pairwise(points[i]):
            later = [scaled[j] for j in shown if j > i]
            above = sum(all(abs(scaled[i][x] - line.get(x, math.inf)) <= near for x, _ in ends) for line in later)
            if above:
                colour, width = axes.lines[i].get_color(), 1.5 + 2.5 * above
                axes.add_collection(LineCollection([ends], color=colour, linewidth=width, zorder=1.95, clip_on=False))


def _draw(axes: Axes, look: int, line: Line) -> None:
    colour = LINES[look % len(LINES) if line.style == "plain" else -1].light
    if line.intervals:
        lows, highs = zip(*line.intervals, strict=True)
        axes.vlines(line.x, lows, highs, color=colour, linewidth=1, clip_on=False)
    quiet = line.style != "plain"
    axes.plot(
        line.x,
        [y if math.isfinite(y) else math.nan for y in line.y],
        color=colour,
        linestyle="-" if quiet else _DASHES[look // len(LINES) % len(_DASHES)],
        marker={"plain": _MARKERS[look % len(_MARKERS)], "quiet": ".", "fit": "None"}[line.style],
        markersize=2 if quiet else 6,
        markeredgewidth=0,
        linewidth=0.6 if line.style == "quiet" else 1.5,
        clip_on=False,
        gid=f"line-{len(axes.lines)}",
        label=xml_text(line.label),
        zorder=1.9 if quiet else 2,
    )


def _frame(axes: Axes, x: Axis, y: Axis, width: float) -> None:
    """Draw the grid, ticks and labels. width: that of the axes, in inches."""
    axes.fmt_xdata = "{:.4g}".format
    axes.set(xscale="log" if x.log else "linear", yscale="log" if y.log else "linear")
    axes.tick_params(which="both", color=QUIET.light, labelcolor=QUIET.light, labelsize=9)
    for axis, drawn in ((x, axes.xaxis), (y, axes.yaxis)):
        drawn.set_label_text(xml_text(axis.label), color=QUIET.light, fontsize=9)
        _set_ticks(axes, axis, drawn, width)
    axes.grid(axis="y", color=GRID.light, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(QUIET.light)
    axes.tick_params(axis="y", length=0)


def _set_ticks(axes: Axes, axis: Axis, drawn: DrawnAxis, width: float) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, ScalarFormatter

    if axis.categories:
        names = [xml_text(name) for name in axis.categories]
        if _needed_width(names) > width:
            names = [name.replace(" ", "\n") for name in names]
        step = max(1, math.ceil(_needed_width(names) / width))  # so that names do not overlap
        drawn.set_ticks(range(0, len(names), step), names[::step])
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.fmt_xdata = lambda position: names[round(position)]
    elif axis.log:
        low, high = drawn.get_data_interval()
        drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 1000 * low else (1.0,)))
        drawn.set_minor_locator(NullLocator())
        drawn.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        drawn.set_major_formatter(ScalarFormatter(useOffset=False))


def _needed_width(names: Sequence[str]) -> float:
    """Return the inches that all names would need if each were as wide as the widest."""
    return len(names) * (_LETTER * max(cell_len(line) for name in names for line in name.split("\n")) + 0.1)


def _short(name: str) -> str:
    """Return the end of a long name, which says most: of a path, the folder."""
    return name if cell_len(name) <= _LONGEST else f"…{name[-_LONGEST + 1 :]}"


_NAMES = {colour.light: name for name, colour in reversed(COLOURS.items())}  # of equal colours, the first name


def restyle(svg: bytes, figure: Figure) -> str:
    """Return the SVG that matplotlib wrote for a figure, with a tooltip at each point."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = _local(element.tag)
        element.attrib = {_local(name): value for name, value in element.attrib.items()}
    for child in [*root.findall("metadata"), *root.findall("defs[style]")]:
        root.remove(child)
    _add_tooltips(root, figure)
    referred = set(re.findall(r'(?:href="#|url\(#)([^")]+)', ElementTree.tostring(root, encoding="unicode")))
    used: dict[str, None] = {}
    for element in root.iter():
        used |= dict.fromkeys(_classes(element))
        if element.get("id") not in referred:
            element.attrib.pop("id", None)
    title = figure.axes[0].get_title(loc="left")
    root.attrib |= {
        "xmlns": "http://www.w3.org/2000/svg",
        "class": "plot drawing",
        "role": "img",
        "aria-label": title,
        "font-family": "system-ui, sans-serif",
    }
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    style = ElementTree.Element("style")
    style.text = render("drawing.css.j2", names=list(used))
    root.insert(0, style)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _local(name: str) -> str:
    """Return the name without its namespace: all are SVG's, which now includes href."""
    return name.rpartition("}")[2]


def _classes(element: Element) -> Iterator[str]:
    """Move an element's style into attributes and a class by colour; yield the names of its colours."""
    style = dict(part.split(": ", 1) for part in element.attrib.pop("style", "").split("; ") if part)
    style.pop("font-family", None)
    element.attrib |= style
    if element.get("id") == PHOTOGRAPH:
        element.set("class", PHOTOGRAPH)
    names = {kind: _NAMES[style[kind]] for kind in ("fill", "stroke") if style.get(kind) in _NAMES}
    if names:
        element.set("class", " ".join(f"{kind}-{name}" for kind, name in names.items()))
    elif element.tag == "text" and "fill" not in style:
        element.attrib |= {"class": "fill-ink", "fill": COLOURS["ink"].light}
    yield from names.values()


def _add_tooltips(root: Element, figure: Figure) -> None:
    """Label each point, for pointers and screen readers. Lines are recognised by the identifiers of their groups."""
    for axes in figure.axes:
        for line in axes.lines:
            group = root.find(f".//*[@id='{line.get_gid()}']")
            marks = [] if group is None else group.findall(".//use")
            points = np.asarray(line.get_xydata(), np.float64)
            for mark, (x, y) in zip(marks, points[np.isfinite(points).all(axis=1)].tolist(), strict=False):
                title = ElementTree.SubElement(mark, "title")
                title.text = f"{line.get_label()}: {axes.format_xdata(x).strip()}: {y:.4g}"
