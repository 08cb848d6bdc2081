"""Renders pages and drawings from the templates in the folder `templates`; all values but markup are escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from chainrule.base.plain_tables import printable
from chainrule.drawing.colours import COLOURS
from chainrule.drawing.markup import xml_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """Renders a template, by its file name. Strings among the values are escaped, unless they are `Markup`."""
    return _environment().get_template(template).render(values)


def html_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A table for a notebook, the first column aligned left, the others right. Cells are text, not markup."""
    return html_tables([(title, rows)], header, notes)


def html_tables(
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]], header: Sequence[str], notes: Sequence[str] = ()
) -> str:
    """Several tables with the same header, each with its title, and notes below them."""
    return render("table.html.j2", tables=tables, header=header, notes=notes)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("chainrule.drawing"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["printable"] = printable
    environment.filters["pixels"] = _pixels
    environment.globals["colours"] = COLOURS
    return environment


def _finalize(value: object) -> object:
    """Strings as text that XML can contain; markup as it is."""
    return xml_text(value) if type(value) is str else value  # Markup is a subclass


def _pixels(length: float) -> str:
    """A length or position in pixels, rounded to a tenth."""
    return f"{length:.1f}".removesuffix(".0")
