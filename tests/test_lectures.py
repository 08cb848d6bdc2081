"""docs/lectures.py, which runs the page of the lectures and writes its figures anew."""

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


def test_a_comment_names_one_command_by_some_of_its_words(lectures: ModuleType) -> None:
    page = "```console\n$ echo one\n$ echo one two\n```\n\n<!-- line 1 of: {} -->\n\n    zero\n"
    printed = {"echo one": "one\n", "echo one two": "one two\n"}
    assert lectures.with_figures(page.format("one two"), printed)[0].endswith("\n    one two\n")
    with pytest.raises(ValueError, match="a comment names 0 commands of the page in place of one: echo three"):
        lectures.with_figures(page.format("echo three"), printed)
    with pytest.raises(ValueError, match="a comment names 2 commands of the page in place of one: echo one"):
        lectures.with_figures(page.format("echo one"), printed)


def test_figures_of_the_open_model_are_left_alone_without_it(lectures: ModuleType) -> None:
    page = "```sh\nprintf 'a' | chainrule score smollm2.gguf\n```\n\n<!-- line 1 of: printf 'a' -->\n\n    zero\n"
    assert lectures.with_figures(page, {}) == (page, [])
    [command] = lectures.of_model(page)
    assert lectures.with_figures(page, {command: "one\n"})[0].endswith("\n    one\n")


def test_a_command_that_fails_ends_the_run_with_what_it_said(lectures: ModuleType, tmp_path: Path) -> None:
    assert lectures.run("echo one | tee file.txt", tmp_path) == "one\n"
    assert (tmp_path / "file.txt").read_text() == "one\n"
    with pytest.raises(SystemExit, match="no such file"):
        lectures.run("cat missing.txt 2>&1 >/dev/null || { echo no such file >&2; false; }", tmp_path)


def test_the_figures_of_the_page_are_those_of_its_commands(lectures: ModuleType) -> None:
    text = (DOCS / "lectures.md").read_text(encoding="utf-8")
    commands = [*lectures.commands_of(text), *lectures.of_model(text)]
    assert len(commands) == len({*commands})
    comments = re.findall(r"^<!-- .+? of: (.+) -->\n\n(.*)", text, re.MULTILINE)
    assert len(comments) > 10
    for words, first in comments:
        assert lectures.named(words, commands)
        assert first.startswith("    "), f"no figures yet: {words}"
