"""chainrule evaluate --suite: the table, the notes on bad items, and refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


def written(path: Path, name: str, first: str = "ka") -> Path:
    """A suite of two items, of which the second is a tie. first: the word that begins all sentences."""

    def condition(name: str, *contents: str) -> dict[str, Any]:
        regions = [{"region_number": i, "content": content} for i, content in enumerate(contents, 1)]
        return {"condition_name": name, "regions": regions}

    items = [
        {"item_number": 1, "conditions": [condition("seen", first, "vi"), condition("new", first, "vi zzz zzz")]},
        {"item_number": 2, "conditions": [condition("seen", first, "", "vi"), condition("new", first, "", "vi")]},
        {"item_number": 3, "conditions": [condition("seen", first, "vi")]},
    ]
    predictions = [{"type": "formula", "formula": "[(2;%seen%) < (2;%new%)]"}]
    path.write_text(json.dumps({"meta": {"name": name}, "predictions": predictions, "items": items}))
    return path


def test_a_table_of_suites_and_a_note_on_each_bad_item(chainrule, model: Path, tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.json", name, first) for name, first in [("one", "ka"), ("two", "vi")]]
    result = chainrule("evaluate", model, "--suite", *files)
    assert f"{files[0]}, item 3 and 1 other record: there is no condition 'new', which the formula" in result.err
    assert [line.split() for line in result.out.splitlines()] == [
        ["suite", "items", "accuracy", "95", "%", "ties"],
        ["one", "2", "50.0%", "9.5-90.5", "1"],
        ["two", "2", "50.0%", "9.5-90.5", "1"],
        ["mean", "of", "2", "suites", "4", "50.0%", "2"],
    ]
    [one, _] = chainrule("evaluate", model, "--suite", *files, "--json").json
    assert (one["items"], one["correct"], one["ties"]) == (2, 1, 1)
    assert "item 3" in chainrule("evaluate", model, "--suite", *files, "--bad-records", "stop").error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--suite", "a.json", "--minimal-pairs", "b.jsonl"], "--suite and --minimal-pairs are both given"),
        (["--suite"], "--suite"),
        (["--suite", "a.json", "--no-ends"], "leave out --no-ends"),
        (["text.txt", "--no-word-ends"], "--suite"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: list[str], message: str, refused, model: Path) -> None:
    assert message in refused(2, ["evaluate", model, *options])
