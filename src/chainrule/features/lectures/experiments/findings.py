"""The result of an experiment: lines over an axis, and what they show in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from chainrule.base.tables import text_table
from chainrule.drawing.pages import html_table
from chainrule.drawing.plots import Axis, Line, has_matplotlib, line_plot, svg_of
from chainrule.features.metrics.classification import Accuracy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.figure import Figure

    from chainrule.base.progress import Progress

T = TypeVar("T")

_COLUMNS = 8  # of the table: values of x


def in_turn(name: str, items: Mapping[str, T] | Sequence[T], progress: Progress) -> Iterator[tuple[str, T]]:
    """Yield what an experiment compares, each with its label, and report each to progress before.

    name: the experiment's.
    """
    labelled = items.items() if isinstance(items, Mapping) else [(str(item), item) for item in items]
    for i, (label, item) in enumerate(labelled):
        progress(f"{name}: {label}", i, len(labelled))
        yield label, item
    progress(name, 1, 1)


def share_of(share: float, count: int) -> str:
    """Return a share of so many cases, with its 95 % interval: 96% (92% to 98%)."""
    low, high = Accuracy(pairs=count, wins=round(share * count), ties=0).interval
    return f"{share:.0%} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Findings:
    """Lines that share their values of x, but may end early.

    finding: in a sentence, what the experiment shows. says: more sentences, with figures.
    """

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    says: Sequence[str] = ()
    finding: str = ""

    def __repr__(self) -> str:
        return f"<Findings of {len(self.lines)} lines>\n{self}"

    def __str__(self) -> str:
        """Return the title, a table of some points, and the sentences."""
        return "\n".join([self.title, text_table(*self.table()), *self.sentences])

    def as_json(self) -> dict[str, Any]:
        """Return the lines and the sentences, for JSON."""
        lines = [{"label": line.label, "x": list(line.x), "y": list(line.y)} for line in self.lines]
        axes = {"title": self.title, "x": self.x.label, "y": self.y.label}
        return {**axes, "lines": lines, "finding": self.finding, "says": list(self.says)}

    def to_records(self) -> list[dict[str, Any]]:
        """Return a row for each point."""
        return [
            {"line": line.label, "x": x, "y": y} for line in self.lines for x, y in zip(line.x, line.y, strict=True)
        ]

    @property
    def sentences(self) -> list[str]:
        """The finding, if there is one, and the other sentences."""
        return [*([self.finding] if self.finding else []), *self.says]

    def _repr_html_(self) -> str:
        """Return the plot, or the table if matplotlib is missing."""
        if not has_matplotlib():
            header, rows = self.table()
            return html_table(self.title, header, rows, self.sentences)
        return svg_of(self.plot())

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the header, and a row for each line with some of its points; a single line over categories is a
        column.
        """
        if self.x.categories:
            rows = [[line.label, *(f"{value:.3g}" for value in line.y)] for line in self.lines]
            table = [[f"{self.y.label}, by {self.x.label}", *self.x.categories], *rows]
            header, *rows = [list(column) for column in zip(*table, strict=True)] if len(rows) == 1 else table
            return header, rows
        positions = max((line.x for line in self.lines), key=len)
        chosen = positions[:: -(-len(positions) // _COLUMNS)]
        rows = []
        for line in self.lines:
            values = dict(zip(line.x, line.y, strict=True))
            rows.append([line.label, *(f"{values[x]:.3g}" if x in values else "-" for x in chosen)])
        return [f"{self.y.label}, by {self.x.label}", *(f"{x:g}" for x in chosen)], rows

    def plot(self) -> Figure:
        """Return a matplotlib figure. Raises SettingError if matplotlib is missing."""
        return line_plot(self.title, self.lines, self.x, self.y)
