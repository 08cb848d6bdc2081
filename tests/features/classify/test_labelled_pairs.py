"""Files of pairs: texts and trees, labels and ratings, column names of known sets; and what is wrong with a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from chainrule.errors import SettingError, TextError
from chainrule.features.classify.labelled.pairs import Pair, read_labelled_pairs, read_unlabelled_pairs
from chainrule.features.trees.structures.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

SICK = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "1\tA dog runs\tA cat runs\t3.5\tNEUTRAL\n"
    "\n"
    "2\tA dog runs\tAn animal moves\t4\tENTAILMENT\n"
)


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_columns_by_their_names(tmp_path: Path) -> None:
    file = written(tmp_path, "SICK.txt", SICK)
    assert [pair.labels for pair in read_labelled_pairs(file)] == [("NEUTRAL",), ("ENTAILMENT",)]
    ratings = read_labelled_pairs(file, ratings=True)
    assert [pair.labels for pair in ratings] == [("3.5",), ("4",)]
    assert ratings[1].input == Pair("A dog runs", "An animal moves")
    assert ratings[1].place == f"{file}, line 4"


def test_three_columns_without_names(tmp_path: Path) -> None:
    file = written(tmp_path, "pairs.tsv", "a b\tc\tyes\nd\te f\tno\n")
    assert [(*pair.input, *pair.labels) for pair in read_labelled_pairs(file)] == [
        ("a b", "c", "yes"),
        ("d", "e f", "no"),
    ]
    assert read_unlabelled_pairs(file)[1] == Pair("d", "e f")
    assert read_unlabelled_pairs(written(tmp_path, "two.tsv", "a\tb\n")) == [Pair("a", "b")]


def test_json_of_texts_and_trees(tmp_path: Path) -> None:
    lines = [{"premise": "a", "hypothesis": "b", "label": "yes", "idx": 3}, {"first": "c", "second": "d", "label": 1.5}]
    file = written(tmp_path, "pairs.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert [pair.labels for pair in read_labelled_pairs(file)] == [("yes",), ("1.5",)]
    tree = {"words": ["she", "sleeps"], "parents": [1, -1]}
    file = written(tmp_path, "trees.jsonl", json.dumps({"first": tree, "second": "(S she sleeps)", "label": 5}) + "\n")
    [pair] = read_labelled_pairs(file, "tree", ratings=True)
    assert pair.labels == ("5",)
    assert pair.input.first == Tree(("she", "sleeps"), (None, None), (1, -1))
    assert isinstance(pair.input.second, Tree)
    assert pair.input.second.text() == "she sleeps"


@pytest.mark.parametrize(
    ("text", "sides", "message"),
    [
        ("a\tb\n", "text", r"line 1: found 2 columns; expected 3: first, second, label"),
        ("a\t \tc\n", "text", r"line 1: a side of the pair is ' '; expected a text that is not empty"),
        ("a\tb\t \n", "text", r"line 1: the label is ' '"),
        ("(S a\t(S b c)\tyes\n", "tree", r"line 1, line 1, column 1: this bracket is never closed"),
        ("(S a b) (S c d)\t(S b c)\tyes\n", "tree", r"expected one tree, in brackets"),
        ("", "text", r"there is no labelled pair in it"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, sides: str, message: str) -> None:
    with pytest.raises(TextError, match=message):
        read_labelled_pairs(written(tmp_path, "pairs.tsv", text), sides)  # type: ignore[arg-type]


def test_json_without_a_field_or_with_an_odd_value(tmp_path: Path) -> None:
    for record, message in (
        ({"first": "a", "label": "x"}, r"there is no second; expected a field or column of the name second or"),
        ({"first": "a", "second": ["b"], "label": "x"}, r"a side of the pair is \['b'\]"),
        ({"first": "a", "second": "b", "label": None}, r"the label is None"),
        ({"first": {"words": ["a"], "parents": [3]}, "second": "b", "label": "x"}, r"a side of the pair is"),
    ):
        file = written(tmp_path, "pairs.jsonl", json.dumps(record) + "\n")
        with pytest.raises(TextError, match=message):
            read_labelled_pairs(file)


def test_bad_pairs_are_left_out_where_asked(tmp_path: Path) -> None:
    file = written(tmp_path, "pairs.tsv", "a\tb\tyes\nbroken\nc\td\tno\n")
    errors: list[TextError] = []
    pairs = read_labelled_pairs(file, on_bad=errors.append)
    assert [pair.labels for pair in pairs] == [("yes",), ("no",)]
    assert len(errors) == 1
    assert "line 2" in str(errors[0])


def test_pairs_of_csv_are_those_of_tsv(tmp_path: Path) -> None:
    rows = [["first", "second", "label"], ["a, b", "c", "yes"], ["d", "e", "no"]]
    tsv = written(tmp_path, "pairs.tsv", "".join("\t".join(row) + "\n" for row in rows))
    csv = written(tmp_path, "pairs.csv", "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))
    found = [[(pair.input, pair.labels) for pair in read_labelled_pairs(file)] for file in (tsv, csv)]
    assert found[0] == found[1]
    assert len(found[0]) == 2


def test_names_of_columns_are_given_or_recognised(tmp_path: Path) -> None:
    file = written(tmp_path, "nli.csv", "premise,hypothesis,gold\na,b,1\nc,d,2\n")
    assert [pair.labels for pair in read_labelled_pairs(file, label_field="gold")] == [("1",), ("2",)]
    with pytest.raises(TextError, match=r"line 1: the columns are 'premise', 'hypothesis', 'gold'; none is called"):
        read_labelled_pairs(file, ratings=True)
    file = written(tmp_path, "scores.csv", "a,b,score\nx,y,1\nz,y,2\n")
    assert [pair.labels for pair in read_labelled_pairs(file, ratings=True)] == [("1",), ("2",)]
    assert read_unlabelled_pairs(file) == [Pair("x", "y"), Pair("z", "y")]
    file = written(tmp_path, "more.csv", "id,a,b,score\n1,x,y,1\n2,z,y,2\n")
    with pytest.raises(TextError, match=r"none is called 'first' or .*; none 'second' or .* with fields="):
        read_labelled_pairs(file, ratings=True)
    found = read_labelled_pairs(file, ratings=True, fields=("b", "a"))
    assert [(*pair.input, *pair.labels) for pair in found] == [("y", "x", "1"), ("y", "z", "2")]
    file = written(tmp_path, "gold.csv", "a,b,gold\nx,y,1\nz,y,2\n")
    with pytest.raises(TextError, match="line 1: 'a', 'b', 'gold' seem to be the names of columns"):
        read_labelled_pairs(file, ratings=True)
    with pytest.raises(SettingError, match="fields is 'ab'; expected the names of two columns"):
        read_labelled_pairs(file, fields="ab")  # type: ignore[arg-type]


def test_pairs_in_another_encoding(tmp_path: Path) -> None:
    for name, text in (("a.csv", "café,b,yes\n"), ("a.tsv", "café\tb\tyes\n"), ("a.jsonl", '{"first":"café",')):
        rest = '"second":"b","label":"yes"}\n' if name.endswith("jsonl") else ""
        (tmp_path / name).write_bytes((text + rest).encode("latin-1"))
        [pair] = read_labelled_pairs(tmp_path / name, encoding="latin-1")
        assert pair.input == Pair("café", "b")
