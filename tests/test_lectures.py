"""docs/lectures.py, which runs the pages of the lectures and writes their figures anew."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from types import ModuleType

DOCS = Path(__file__).parents[1] / "docs"
TABLE = """measured on x.txt

model    bits/byte  perplexity
lm/           1.25        4.00
larger/       1.00       31.50

best"""
PAGE = """Text.

```console
$ echo one
$ chainrule compare
```

<!-- line 1 of: echo one -->

    zero

Between.

<!-- model, perplexity of: chainrule compare -->

The end.
"""


@pytest.fixture(scope="module")
def lectures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_lectures", DOCS / "lectures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_are_written_below_their_comments_and_changes_are_said(lectures: ModuleType) -> None:
    assert lectures.commands_of(PAGE) == ["echo one", "chainrule compare"]
    printed = {"echo one": "one\ntwo\n", "chainrule compare": TABLE}
    written, changes = lectures.with_figures(PAGE, printed)
    assert "echo one -->\n\n    one\n\nBetween." in written
    table = "    model    perplexity\n    lm/            4.00\n    larger/       31.50\n"
    assert f"chainrule compare -->\n\n{table}\nThe end.\n" in written
    assert changes[0] == "echo one\n- zero\n+ one"
    assert len(changes) == 2
    assert lectures.with_figures(written, printed) == (written, [])


def test_parts_are_lines_lines_with_a_word_and_columns(lectures: ModuleType) -> None:
    assert lectures.part_of("a 1\nb 2\n\nc 3\n", "lines 2-4") == ["b 2", "", "c 3"]
    assert lectures.part_of("a 1\nb 2\nc 2\n", "lines with 2") == ["b 2", "c 2"]
    assert lectures.part_of(TABLE, "bits/byte") == ["bits/byte", "1.25     ", "1.00     "]
    with pytest.raises(ValueError, match="no table with the columns model, tokens"):
        lectures.part_of(TABLE, "model, tokens")


def test_figures_without_a_command_are_an_error_unless_they_need_the_open_model(lectures: ModuleType) -> None:
    page = "<!-- line 1 of: {} -->\n\n    zero\n"
    with pytest.raises(ValueError, match="a command that it does not have: echo two"):
        lectures.with_figures(page.format("echo two"), {})
    command = "chainrule next smollm2.gguf"
    assert lectures.with_figures(page.format(command), {}) == (page.format(command), [])


def test_a_command_that_fails_ends_the_run_with_what_it_said(lectures: ModuleType, tmp_path: Path) -> None:
    assert lectures.run("echo one | tee file.txt", tmp_path) == "one\n"
    assert (tmp_path / "file.txt").read_text() == "one\n"
    with pytest.raises(SystemExit, match="no such file"):
        lectures.run("cat missing.txt 2>&1 >/dev/null || { echo no such file >&2; false; }", tmp_path)


@pytest.mark.parametrize("name", ["lectures.md", "sentences.md"])
def test_the_figures_of_a_page_are_those_of_its_commands(lectures: ModuleType, name: str) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    commands = {*lectures.commands_of(text), *lectures.of_model(text)}
    comments = re.findall(r"^<!-- .+? of: (.+) -->\n\n(.*)", text, re.MULTILINE)
    assert len(comments) > 10
    for command, first in comments:
        assert command in commands
        assert first.startswith("    "), f"no figures yet: {command}"
