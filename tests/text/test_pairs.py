"""Pairs of texts from files of three kinds, and what is wrong with them told with its place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chainrule.errors import TextError
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.parallel import Pairs, pairs_of, parallel

if TYPE_CHECKING:
    from pathlib import Path

SOURCES, TARGETS = ["ein Hund", "zwei Katzen"], ["a dog", "two cats"]


def test_three_kinds_of_files_hold_the_same_pairs(tmp_path: Path) -> None:
    for name, lines in (("a.de", SOURCES), ("a.en", TARGETS)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    (tmp_path / "a.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in zip(SOURCES, TARGETS, strict=True)))
    records = [json.dumps({"de": s, "en": t}) for s, t in zip(SOURCES, TARGETS, strict=True)]
    (tmp_path / "a.jsonl").write_text("\n".join(records))
    for files in (["a.de", "a.en"], ["a.tsv"], ["a.jsonl"]):
        found = pairs_of([str(tmp_path / file) for file in files], ("de", "en"))
        assert (found.sources, found.targets) == (SOURCES, TARGETS)
        assert found.record["pairs"] == 2


def test_pairs_with_an_empty_side_are_left_out_and_counted(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("ein Hund\n\n  \neine Katze\n")
    (tmp_path / "b").write_text("a dog\nsomething\n\na cat\n")
    found = parallel(Corpus.of(tmp_path / "a"), tmp_path / "b")
    assert (found.sources, found.targets, found.left_out) == (["ein Hund", "eine Katze"], ["a dog", "a cat"], 2)


def test_each_side_knows_the_lines_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("ein Hund\ta dog\n\n\tnothing\neine Katze\ta cat\n")
    found = pairs_of([str(tmp_path / "a.tsv")], ("", ""))
    assert (len(found), found.left_out) == (2, 2)
    for side in found.sides():
        [block] = side.blocks()
        assert [block.locate(number) for number in (1, 2)] == [f"{tmp_path}/a.tsv, line {line}" for line in (1, 4)]


def test_as_many_sources_as_targets() -> None:
    with pytest.raises(TextError, match="2 sources, but 1 targets"):
        Pairs(["a", "b"], ["c"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "x\ny\n", "b": "x\n"}, "b: ends after line 1, but .*a goes on"),
        ({"a": "x\n", "b": "x\ny\nz\n"}, "a: ends after line 1, but .*b goes on"),
        ({"a": "\n", "b": "x\n"}, "there are no pairs in it: one side of each of the 1 is empty"),
        ({"a.tsv": "x\ty\nx y\n"}, r"a\.tsv, line 2: there is no tab; expected a source"),
        ({"a.tsv": "x\ty\tz\n"}, r"line 1: there is more than one tab"),
        (
            {"a.jsonl": '{"source": "x"}\n'},
            "line 1: the field 'target' is missing; .*choose one with source_field=... and target_field=...",
        ),
        ({"a.jsonl": '{"source": "x", "target": 3}\n'}, "line 1: the field 'target' is not a string"),
    ],
)
def test_what_is_no_pair_is_an_error_with_its_place(files: dict[str, str], message: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(TextError, match=message):
        pairs_of([str(tmp_path / name) for name in files], ("source", "target"))
