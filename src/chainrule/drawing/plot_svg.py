"""Prepares matplotlib's SVG for pages: colours by class, so that dark mode can change them, and real text.

Its `style` attributes become presentation attributes, which style sheets override; unused identifiers are removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np

from chainrule.drawing.colours import COLOURS
from chainrule.drawing.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterator
    from xml.etree.ElementTree import Element

    from matplotlib.figure import Figure

_NAMES = {colour.light: name for name, colour in reversed(COLOURS.items())}  # of equal colours, the first name


def restyled(svg: bytes, figure: Figure) -> str:
    """The SVG that matplotlib wrote for a figure, with a tooltip at each point."""
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
        if element.get("id") not in referred:
            element.attrib.pop("id", None)
        used |= dict.fromkeys(_classes(element))
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
    """The name without its namespace: all are SVG's, which now includes href."""
    return name.rpartition("}")[2]


def _classes(element: Element) -> Iterator[str]:
    """Moves an element's style into attributes and a class by colour; yields the names of its colours."""
    style = dict(part.split(": ", 1) for part in element.attrib.pop("style", "").split("; ") if part)
    style.pop("font-family", None)
    element.attrib |= style
    names = {kind: _NAMES[style[kind]] for kind in ("fill", "stroke") if style.get(kind) in _NAMES}
    if names:
        element.set("class", " ".join(f"{kind}-{name}" for kind, name in names.items()))
    elif element.tag == "text" and "fill" not in style:
        element.attrib |= {"class": "fill-ink", "fill": COLOURS["ink"].light}
    yield from names.values()


def _add_tooltips(root: Element, figure: Figure) -> None:
    """Labels each point, for pointers and screen readers. Lines are recognised by the identifiers of their groups."""
    for axes in figure.axes:
        for line in axes.lines:
            group = root.find(f".//*[@id='{line.get_gid()}']")
            marks = [] if group is None else group.findall(".//use")
            points = np.asarray(line.get_xydata(), np.float64)
            for mark, (x, y) in zip(marks, points[np.isfinite(points).all(axis=1)].tolist(), strict=False):
                title = ElementTree.SubElement(mark, "title")
                title.text = f"{line.get_label()}: {axes.format_xdata(x).strip()}: {y:.4g}"
