"""What an experiment gives: lines over an axis, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.report.plots import Axis, Line, line_plot

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The lines share their places on the axis, but may end early. says: sentences, with figures."""

    title: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    says: Sequence[str] = ()

    def plot(self) -> str:
        """As SVG."""
        return line_plot(self.title, self.lines, self.x, self.y)
