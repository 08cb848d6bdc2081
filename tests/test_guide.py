"""The pages of the guide do what they say: their Python runs and gives what stands below it."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import pytest
from samples import sampled

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [page.name for page in sorted(DOCS.glob("*.md")) if ">>> " in page.read_text(encoding="utf-8")]
LONG = ("classifiers.md", "vectors.md")


@pytest.mark.parametrize("page", sampled(PAGES, [page for page in PAGES if page not in LONG]))
def test_the_python_of_a_page_gives_what_it_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (DOCS / page).read_text(encoding="utf-8").replace("```", "")
    test = doctest.DocTestParser().get_doctest(text, {}, page, str(DOCS / page), 0)
    assert len(test.examples) > 5
    runner = doctest.DocTestRunner(verbose=False)
    told: list[str] = []
    runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)


def test_the_worked_examples_of_the_lectures_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    text = ast.get_docstring(ast.parse((DOCS / "by_hand.py").read_text(encoding="utf-8"))) or ""
    test = doctest.DocTestParser().get_doctest(text, {}, "by_hand.py", "by_hand.py", 0)
    assert len(test.examples) > 80
    printed: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(test, out=printed.append).failed == 0, "".join(printed)


def test_the_page_on_measuring_is_among_them() -> None:
    assert "measuring.md" in PAGES
