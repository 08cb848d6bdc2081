"""What an experiment gives: lines over an axis, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.base.plain_tables import text_table
from chainrule.drawing.plots import Axis, Line, has_matplotlib, line_plot, svg_of
from chainrule.drawing.rendering import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


_COLUMNS = 8  # places on the axis that the table shows


@dataclass(frozen=True, kw_only=True, repr=False)
class Findings:
    """The lines share their places on the axis, but may end early. says: sentences, with figures."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    says: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<Findings of {len(self.lines)} lines>\n{self}"

    def __str__(self) -> str:
        """The title, a table of some places, and the sentences."""
        return "\n".join([self.title, text_table(*self.table()), *self.says])

    def _repr_html_(self) -> str:
        """The plot; the table, where matplotlib is missing."""
        if not has_matplotlib():
            header, rows = self.table()
            return html_table(self.title, header, rows, self.says)
        return svg_of(self.plot())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The header, and a row for each line, at some of the places."""
        places = max((line.x for line in self.lines), key=len)
        chosen = places[:: -(-len(places) // _COLUMNS)]
        rows = []
        for line in self.lines:
            values = dict(zip(line.x, line.y, strict=True))
            rows.append([line.label, *(f"{values[place]:.3g}" if place in values else "-" for place in chosen)])
        return [f"{self.y.label}, by {self.x.label}", *(f"{place:g}" for place in chosen)], rows

    def plot(self) -> Figure:
        """A figure of matplotlib's. Raises SettingError where that is missing."""
        return line_plot(self.title, self.lines, self.x, self.y)
