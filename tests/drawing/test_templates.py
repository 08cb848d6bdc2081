"""Templates are files of the package, and nothing that they are given is markup."""

from __future__ import annotations

from importlib.resources import files

import pytest

from chainrule.drawing.pages import html_table, html_tables, render

NAMES = sorted(file.name for file in files("chainrule.drawing").joinpath("templates").iterdir())


def test_templates_are_resources_of_the_package() -> None:
    assert {"page.html.j2", "page.css.j2", "table.html.j2"} <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".css.j2", "page.html.j2"))])
def test_no_template_loads_anything(name: str) -> None:
    text = files("chainrule.drawing").joinpath("templates", name).read_text(encoding="utf-8")
    for loading in ("<script", "src=", "@import", "url(", "<link"):
        assert loading not in text


def test_cells_titles_and_notes_are_text() -> None:
    page = html_table("<t>", ["a&b"], [['"c"\n', "d\x1b"]], ["<n>"])
    for text in ("&lt;t&gt;", "a&amp;b", "&#34;c&#34;\\n", "d\\x1b", "&lt;n&gt;"):
        assert text in page
    assert page.count("<table>") == 1


def test_tables_of_one_header() -> None:
    page = html_tables([("one", [["a"]]), ("two", [["b"]])], ["h"])
    assert page.count("<caption>") == page.count(">h</th>") == 2


def test_a_name_that_a_template_does_not_get_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="title"):
        render("page.html.j2")
