"""Writes the names of lines at their ends, and those of single points beside them, so that none lies on another."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.drawing.colours import GRID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.text import Annotation
    from numpy import ndarray

SIZE = 9  # points
_PITCH = 1.3 * SIZE  # from one name to the next
_MARGIN = 1.035  # where names begin, as a share of the width of the axes
_LEADER = {"arrowstyle": "-", "color": GRID.light, "linewidth": 1, "relpos": (0, 0.5), "shrinkA": 2, "shrinkB": 5}
# Places of a name beside its point, the best first: horizontal and vertical distance in points.
_PLACES = ((8, 0), (-8, 0), *((8 * side, 7 * up) for up in (1, -1, 2, -2) for side in (1, -1)))


def write_names(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    """Name all lines of a plot: in the right margin, or where all are points of different x, beside each.

    The layout is fixed afterwards. names: one for each of `axes.lines`. Among points, a line without markers is named
    at its middle.
    """
    marked = [_points(line) for line in axes.lines if line.get_marker() != "None"]
    is_scattered = all(len(points) == 1 for points in marked) and len({points[0, 0] for points in marked}) > 1
    beside, margin = [], []
    for line, name in zip(axes.lines, names, strict=True):
        points, transform = _points(line), line.get_transform()
        looks: dict[str, Any] = {"fontsize": SIZE, "color": line.get_color(), "va": "center", "annotation_clip": False}
        if is_scattered and transform == axes.transData:
            beside.append(axes.annotate(name, tuple(points.mean(axis=0)), (0, 0), textcoords="offset points", **looks))
            continue
        looks |= {"xytext": (_MARGIN, 0), "textcoords": "axes fraction", "arrowprops": _LEADER}
        end: Any = points[-1] if len(points) else (_MARGIN, 0)
        transform = transform if len(points) else axes.transAxes
        margin.append((transform, end, axes.annotate(name, end, xycoords=transform, **looks)))
    figure.draw_without_rendering()  # decides the size of the axes
    figure.set_layout_engine("none")
    heights = [axes.transAxes.inverted().transform(transform.transform(end))[1] for transform, end, _ in margin]
    order = sorted(range(len(margin)), key=heights.__getitem__)
    places = spread([heights[i] for i in order], _PITCH / 72 * figure.dpi / axes.bbox.height)
    for i, place in zip(order, places, strict=True):
        margin[i][-1].set_position((_MARGIN, place))
    if beside:
        _place_beside(axes, beside)


def spread(wanted: Sequence[float], pitch: float) -> list[float]:
    """Return rising positions from 0 to 1, at least `pitch` apart, with the least squared distance to those wanted.

    wanted: in rising order. Positions are closer only if there is no place for all.
    """
    pitch = min(pitch, 1 / max(len(wanted) - 1, 1))
    groups: list[tuple[float, int]] = []  # neighbours at the pitch: the place of the first, but for the pitch
    for i, place in enumerate(wanted):
        groups.append((place - pitch * i, 1))
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            (one, m), (other, n) = groups.pop(-2), groups.pop()
            groups.append(((m * one + n * other) / (m + n), m + n))
    last = 1 - pitch * (len(wanted) - 1)
    firsts = [min(max(place, 0.0), last) for place, count in groups for _ in range(count)]
    return [first + pitch * i for i, first in enumerate(firsts)]


def _points(line: Line2D) -> ndarray:
    points = np.asarray(line.get_xydata(), np.float64)
    return points[np.isfinite(points).all(axis=1)]


def _place_beside(axes: Axes, texts: Sequence[Annotation]) -> None:
    """Move each name to the place beside its point where the least lies under it, and between it and the point."""
    paths = [line.get_transform().transform(_points(line)) for line in axes.lines]
    bars = [path for several in axes.collections for path in several.get_paths()]
    paths += [axes.transData.transform(np.asarray(bar.vertices, np.float64)) for bar in bars]
    steps = np.linspace(0, 1, 100)[:, None]
    taken = np.concatenate([*paths, *(a + steps * (b - a) for path in paths for a, b in pairwise(path))])
    for text in texts:
        point, found = axes.transData.transform(text.xy), []
        for x, y in _PLACES:
            text.set(position=(x, y), ha="left" if x > 0 else "right")
            box = text.get_window_extent().padded(1)
            near = point[0] + math.copysign(5, x), point[1]
            low, high = np.minimum(box.min, near), np.maximum(box.max, near)
            covered = int(((taken >= low) & (taken <= high)).all(axis=1).sum())
            outside = box.x1 > axes.bbox.x1 + 2 or box.x0 < axes.bbox.x0
            found.append((covered + 1000 * outside, (x, y), np.array([low, high])))
        _, place, corners = min(found, key=lambda one: one[0])
        text.set(position=place, ha="left" if place[0] > 0 else "right")
        grid = np.stack(np.meshgrid(*np.linspace(corners[0], corners[1], 30).T), axis=-1)
        taken = np.concatenate([taken, grid.reshape(-1, 2)])
