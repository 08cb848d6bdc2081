"""Documents to files, and what is read back from them."""

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chainrule.errors import OutputError, TextError
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.corpus import Corpus, Lines
from chainrule.text.corpus.reading import COMPRESSIONS
from chainrule.text.corpus.writing import check_format, document_file, table_file

fast = settings(max_examples=30)
texts = st.lists(st.text(st.characters(exclude_categories=["Cs"])).map(lambda s: s.replace("\r\n", "")), min_size=1)


def block_of(documents: list[str]) -> Block:
    text = byte_array(b"".join(document.encode() + b"\xff" for document in documents))
    return Block(text, "records", 7, NEVER_IN_UTF8, "row")


@fast
@given(texts, st.sampled_from(["", *COMPRESSIONS]))
def test_json_lines_hold_every_document(tmp_path: Path, documents: list[str], compression: str) -> None:
    path = tmp_path / f"a.jsonl{compression}"
    with document_file(path) as file:
        file.write(block_of(documents))
        file.write(next(Lines(["one more"]).blocks()))
    assert [text for block in Corpus.of(path).blocks() for text in block.documents()] == [*documents, "one more"]
    assert file.documents == len(documents) + 1


@pytest.mark.parametrize("compression", ["", *COMPRESSIONS])
def test_plain_text_holds_a_line_for_each_document(tmp_path: Path, compression: str) -> None:
    path = tmp_path / f"a.txt{compression}"
    with document_file(path) as file:
        file.write(block_of(["a", ""]))
        file.write(next(Lines(["b é", "c"]).blocks()))
    assert [text for block in Corpus.of(path).blocks() for text in block.documents()] == ["a", "", "b é", "c"]
    assert (file.documents, file.bytes) == (4, len("a\n\nb é\nc\n".encode()))


def test_a_document_with_newlines_is_no_line(tmp_path: Path) -> None:
    message = r"^records, row 8: the document has newlines, but .*\.txt has one document a line"
    with pytest.raises(TextError, match=message):  # noqa: SIM117
        with document_file(tmp_path / "a.txt") as file:
            file.write(block_of(["a", "b\nc"]))
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"a\.parquet: Parquet can only be read"):
        check_format(tmp_path / "a.parquet")


cells = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(),
    st.floats(allow_nan=False),
    st.booleans(),
    st.none(),
)


@fast
@given(st.lists(st.lists(st.tuples(cells, cells), min_size=1), min_size=1), st.sampled_from([".csv", ".tsv"]))
def test_a_table_of_columns_is_read_back_by_the_module_csv(
    tmp_path: Path, blocks: list[list[tuple[Any, Any]]], suffix: str
) -> None:
    path = tmp_path / f"t{suffix}"
    with table_file(path) as write:
        for rows in blocks:
            one, other = (list(values) for values in zip(*rows, strict=True))
            write({"one, or": one, 'the "other"': other})
    with path.open(newline="", encoding="utf-8") as file:
        header, *read = csv.reader(file, delimiter="," if suffix == ".csv" else "\t")
    shown = {True: "TRUE", False: "FALSE", None: ""}
    expected = [
        [shown[cell] if cell is None or isinstance(cell, bool) else str(cell) for cell in row]
        for rows in blocks
        for row in rows
    ]
    assert header == ["one, or", 'the "other"']
    assert read == expected


def test_a_table_of_one_column_has_a_row_for_an_empty_cell(tmp_path: Path) -> None:
    with table_file(tmp_path / "t.csv") as write:
        write({"a": ["", "x", None]})
    assert (tmp_path / "t.csv").read_text() == 'a\n""\nx\n""\n'


def test_columns_that_come_later(tmp_path: Path) -> None:
    """A missing column is empty; a new one is refused, with the number of its first row, but not in JSON lines."""
    for suffix in (".csv", ".parquet"):
        with table_file(tmp_path / f"t{suffix}") as write:
            write({"a": [1, 2], "b": [1.5, math.inf]})
            write({"a": [3]})
            with pytest.raises(OutputError, match=r"row 4 has the column 'c', which the first row lacks"):
                write({"a": [4], "c": [5]})
    with table_file(tmp_path / "t.jsonl") as write:
        write({"a": [1, 2], "b": [1.5, math.inf]})
        write({"a": [4], "c": [{"d": []}]})
    read = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert read == [{"a": 1, "b": 1.5}, {"a": 2, "b": None}, {"a": 4, "c": {"d": []}}]
    with table_file(tmp_path / "t.csv") as write:
        write({"a": [1, 2], "b": [1.5, math.inf]})
        write({"a": [3]})
    assert (tmp_path / "t.csv").read_text() == "a,b\n1,1.5\n2,inf\n3,\n"
