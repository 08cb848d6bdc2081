"""Every figure that README and the guide quote comes from docs/figures.toml, which says how it was measured."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))
from figures import figures, names_in, wrong_figures  # noqa: E402  (of docs/, where MkDocs finds it)
from prose import private_words, sentences_of, warnings  # noqa: E402

FIGURES = figures()
PAGES = {page.name: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("*.md"))}
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_names_its_record_its_code_and_its_day(name: str) -> None:
    figure = FIGURES[name]
    assert figure.value
    assert figure.what
    assert (ROOT / figure.record).is_file()
    assert figure.code
    assert [path for path in figure.code if not (ROOT / path).exists()] == []
    assert datetime.date.fromisoformat(figure.date) >= datetime.date(2026, 11, 1)


def test_every_figure_is_quoted_and_every_quoted_one_is_known() -> None:
    quoted = {name for text in PAGES.values() for name in names_in(text)}
    assert quoted <= {*FIGURES}
    assert {*FIGURES} - quoted == {name for name in FIGURES if name.startswith("readme-")}


def test_the_readme_shows_the_figures_of_today() -> None:
    _, _, table = README.partition("## Measured")
    table = table.partition("\n## ")[0]
    values = [figure.value for name, figure in FIGURES.items() if name.startswith("readme-")]
    assert values
    for value in values:
        assert value in table, value
    shown = re.findall(r"\d[\d.,]*\d|\d", re.sub(r"\]\([^)]+\)", "", table))
    of_figures = {
        number
        for figure in FIGURES.values()
        for number in re.findall(r"\d[\d.,]*\d|\d", f"{figure.value} {figure.what}")
    }
    assert [number for number in shown if number not in of_figures] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_the_values_of_its_figures(name: str) -> None:
    assert wrong_figures(PAGES[name], FIGURES) == []


def test_a_wrong_value_and_an_unknown_name_are_found() -> None:
    name, figure = next(iter(FIGURES.items()))
    mark = f"<!-- figure {name} -->"
    assert wrong_figures(f"about {figure.value}{mark} times", FIGURES) == []
    for wrong in (f"about {mark}", f"about 1{figure.value}{mark}", f"about {figure.value}1{mark}"):
        assert wrong_figures(wrong, FIGURES) == [f"the figure {name} is {figure.value} in docs/figures.toml"]
    assert wrong_figures("3<!-- figure none -->", FIGURES) == ["docs/figures.toml has no figure none"]


def test_no_page_has_long_sentences_or_private_words() -> None:
    assert warnings() == []


def test_words_are_counted_without_code_tables_and_headings() -> None:
    prose = "One two `a b c` four. Five, six [seven](x.md) eight!"
    page = f"# A heading of many words\n\n{prose}\n\n| a | b |\n\n```\ncode code\n```\n"
    assert sentences_of(page) == [4, 4]
    assert private_words("They were told.\n\n`told`") == ["told (says, reports, passed)"]


def test_the_guide_is_short() -> None:
    """People read three pages at most."""
    assert sum(len(text.split()) for name, text in PAGES.items() if name != "changes.md") <= 45_000
