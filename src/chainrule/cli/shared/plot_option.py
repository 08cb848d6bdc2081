"""Options that name the file of a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import CycloptsError

if TYPE_CHECKING:
    from pathlib import Path


def check_plot_option(option: str, path: Path) -> None:
    """Raises CycloptsError where the name has no suffix of a plot."""
    from chainrule.drawing.plots import SUFFIXES

    if path.suffix.lower() not in SUFFIXES:
        raise CycloptsError(msg=f"{option} {path}: its name must end in .pdf, .png or .svg.")
