"""Labelled texts, from TSV and JSON lines, for texts and for words; and what is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.texts import Labelled, check_labelled, classes_of, read_labelled

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.classify.labelled.texts import LabelledUnit


@pytest.mark.parametrize(
    ("name", "unit", "content", "expected"),
    [
        ("a.tsv", "text", "a text\tnews\n\na line\tx y\n", [("a text", ("news",)), ("a line", ("x y",))]),
        ("a.tsv", "text", "a text \tnews \r\n", [("a text ", ("news",))]),
        ("a.jsonl", "text", '{"text": "a text", "label": "news"}\n', [("a text", ("news",))]),
        ("a.jsonl", "text", '{"text": "a text", "label": 1}\n', [("a text", ("1",))]),
        ("a.tsv", "text", "sentence\tLabel\na text\t1\n", [("a text", ("1",))]),
        ("a.tsv", "word", "word\tlabel\na\tlabel\n", [("a", ("label",))]),
        ("a.jsonl", "word", '{"words": ["a", "b"], "labels": [0, 12]}\n', [("a b", ("0", "12"))]),
        ("a.tsv", "word", "a\tDET\ntext\tNOUN\n\n\nYes\tX", [("a text", ("DET", "NOUN")), ("Yes", ("X",))]),
        ("a.jsonl", "word", '{"words": ["a", "b"], "labels": ["X", "Y"]}\n', [("a b", ("X", "Y"))]),
    ],
)
def test_texts_and_words_are_read(
    name: str, unit: LabelledUnit, content: str, expected: list[tuple[str, tuple[str, ...]]], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    assert [each[:2] for each in read_labelled(str(tmp_path / name), unit)] == expected


@pytest.mark.parametrize(
    ("name", "unit", "content", "message"),
    [
        ("a.tsv", "text", "", "there is no labelled text in it"),
        ("a.tsv", "text", "news: a text\n", "line 1: found 1 column; expected 2: text, label"),
        ("a.tsv", "text", "x\ty\na text\t \n", "line 2: label is ' '; expected a string"),
        ("a.tsv", "text", "7\tx\ty\n", "line 1: there are no columns 'text' and 'label', but '7', 'x', 'y'"),
        ("a.tsv", "word", "x\tA\ny\n", "line 2: found 'y'; expected a word, a tab"),
        ("a.tsv", "word", "x y\tA\n", "line 1: the word is 'x y'"),
        ("a.tsv", "word", "x\t\n", "line 1: the label is ''"),
        ("a.tsv", "word", "x\tA\ny z\tB\n", "line 2: the word is 'y z'"),
        ("a.jsonl", "text", '{"text": "a"}', "line 1: there is no field 'label'; there are 'text'"),
        ("a.jsonl", "text", '{"text": "a", "label": 3.5}', "line 1: label is 3.5"),
        ("a.jsonl", "text", '{"text": "a", "label": true}', "line 1: label is True"),
        ("a.jsonl", "text", '{"text": 3, "label": "a"}', "line 1: text is 3; expected a string"),
        ("a.jsonl", "word", '{"words": ["a"], "labels": ["X", "Y"]}', "there are 1 words and 2 labels"),
        ("a.jsonl", "word", '{"text": "a"}', "expected words and labels, a list each"),
        ("a.jsonl", "word", '{"words": [1], "labels": ["X"]}', "the word is 1"),
        ("a.jsonl", "word", '{"words": [], "labels": []}', "there are no words in it"),
    ],
)
def test_what_is_not_labelled_is_refused_with_its_place(
    name: str, unit: LabelledUnit, content: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(TextError, match=name) as refused:
        read_labelled(str(tmp_path / name), unit)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "unit", "content", "places"),
    [
        ("a.tsv", "text", "one\tx\nbad\ntwo\ty\n\tz\n", [2, 4]),
        ("a.tsv", "word", "one\tx\n\nb\ty\nbad\nc\ty\n\ntwo\ty\n", [4]),
        ("a.jsonl", "text", '{"text": "one", "label": "x"}\n[]\n{"text": "two", "label": "y"}\n{"text": 3}\n', [2, 4]),
    ],
)
def test_what_is_not_labelled_may_be_left_out(
    name: str, unit: LabelledUnit, content: str, places: list[int], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    bad: list[TextError] = []
    found = read_labelled(tmp_path / name, unit, bad.append)
    assert [(each.text, each.labels) for each in found] == [("one", ("x",)), ("two", ("y",))]
    assert [int(re.search(r"line (\d+)", str(error))[1]) for error in bad] == places


def test_what_did_not_come_from_a_file_is_checked_too(tmp_path: Path) -> None:
    good = Labelled("a text", ("news",))
    assert check_labelled((each for each in [good, good]), "text") == [good, good]
    for bad in (
        "file.tsv",
        ["a text"],
        [("a text", ("news",))],
        [Labelled("a text", "news")],
        [Labelled(None, ("a",))],
    ):
        with pytest.raises(TypeError, match=r"labelled texts|tuple of labels"):
            check_labelled(bad, "text")
    for label in (1, "", " ", "a\nb", "a\tb", None):
        with pytest.raises(TextError, match=r"line 3: the label .* is not a string of one line, or is empty"):
            check_labelled([good, Labelled("b", (label,), "line 3")], "text")
    with pytest.raises(TextError, match="a text has one label, and there are 2"):
        check_labelled([Labelled("a b", ("x", "y"))], "text")
    with pytest.raises(TextError, match="no labelled texts"):
        check_labelled([], "word")
    with pytest.raises(SettingError, match="unit is 'words'; expected text or word"):
        read_labelled(tmp_path / "a.tsv", "words")


def test_classes_are_sorted_and_there_must_be_two() -> None:
    assert classes_of([Labelled("a", ("y",), ""), Labelled("b", ("x", "y"), "")]) == ["x", "y"]
    with pytest.raises(TextError, match="all labels are 'y'; expected at least two"):
        classes_of([Labelled("a", ("y",), "")])


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("a.csv", 'text,label\n"one, two",x\n"a\n""b""",y\n', {}),
        ("a.csv", 'id,label,text\n1,x,"one, two"\n2,y,"a\n""b"""\n', {}),
        ("a.csv", '"one, two",x\n"a\n""b""",y\n', {}),
        ("a.csv", 'sentence,Label\n"one, two",x\n"a\n""b""",y\n', {}),
        ("a.csv", 'stars;review\nx;one, two\ny;"a\n""b"""\n', {"field": "review", "label_field": "stars"}),
        ("a.jsonl", '{"review": "one, two", "stars": "x"}\n{"review": "a\\n\\"b\\"", "stars": "y"}\n', 1),
    ],
)
def test_columns_are_found_by_their_names(
    name: str, content: str, options: dict[str, str] | int, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    named = {"field": "review", "label_field": "stars"} if options == 1 else options
    found = read_labelled(tmp_path / name, **named)  # type: ignore[arg-type]
    assert [(one.text, one.labels) for one in found] == [("one, two", ("x",)), ('a\n"b"', ("y",))]


def test_named_columns_of_tsv_and_other_encodings(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes("id\tlabel\ttext\n1\tx\tcafé\n2\ty\tthé\n".encode("latin-1"))
    found = read_labelled(tmp_path / "a.tsv", encoding="latin-1")
    assert [(one.text, one.labels) for one in found] == [("café", ("x",)), ("thé", ("y",))]
    with pytest.raises(TextError, match="not UTF-8"):
        read_labelled(tmp_path / "a.tsv")
    with pytest.raises(TextError, match="there are no columns 'a' and 'label', but 'id', 'label', 'text'; name"):
        read_labelled(tmp_path / "a.tsv", field="a", encoding="latin-1")
    (tmp_path / "a.csv").write_text("stars,review,id\n5,good,1\n")
    with pytest.raises(TextError, match=r"there are no columns 'text' and 'label', but 'stars', 'review', 'id'"):
        read_labelled(tmp_path / "a.csv")
    (tmp_path / "a.csv").write_text("review,stars\ngood,5\nbad,1\nfine,5\n")
    with pytest.raises(TextError, match=r"line 1: 'review,stars' seems to name columns.* with field="):
        read_labelled(tmp_path / "a.csv")
    assert len(read_labelled(tmp_path / "a.csv", field="review", label_field="stars")) == 3
    for first, others, is_refused in (
        ("review\tstars", "good\tx\nbad\ty\n" * 25, True),
        ("review\tstars", "good\t5\nbad\t1\nfine\t3\n", True),  # numbers, but for the first
        ("nice\tz", "good\tx\n" * 50 + "bad\ty\n", False),  # y, too, occurs once
        ("nice\tz", "good\tx\nbad\ty\n" * 24, False),  # few
        ("nice\t7", "good\t5\nbad\t5\n", False),  # no column has such a name
    ):
        (tmp_path / "b.tsv").write_text(f"{first}\n{others}")
        if is_refused:
            with pytest.raises(
                TextError, match=r"line 1: 'review\\tstars' seems to name columns.* of text, tab, label"
            ):
                read_labelled(tmp_path / "b.tsv")
        else:
            assert len(read_labelled(tmp_path / "b.tsv")) == 1 + others.count("\n")
    (tmp_path / "a.csv").write_text("great,5\ngood,5\nbad,1\n")
    assert len(read_labelled(tmp_path / "a.csv")) == 3
    (tmp_path / "a.csv").write_text("text,label\ngood,x,3\nbad,y\n")
    bad: list[TextError] = []
    assert len(read_labelled(tmp_path / "a.csv", on_bad=bad.append)) == 1
    assert "line 2: found 3 columns; expected 2: text, label" in str(bad[0])
    with pytest.raises(SettingError, match="texts with one label"):
        read_labelled(tmp_path / "a.csv", "word", field="x")
    with pytest.raises(TextError, match="not from CSV"):
        read_labelled(tmp_path / "a.csv", "word")
