"""Parquet files, whole and broken, as pyarrow writes them."""

import hashlib
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import TextError
from chainrule.text.corpus import parquet
from chainrule.text.corpus.block import Block
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import Reading

fast = examples(0.8)


def written(path: Path, values: Any, name: str = "text", **options: Any) -> Path:
    column = values if isinstance(values, pyarrow.Array) else pyarrow.array(values, pyarrow.string())
    table = pyarrow.table({"id": pyarrow.array(range(len(column))), name: column})
    pyarrow.parquet.write_table(table, path, **options)
    return path


def blocks(path: Path, **options: Any) -> list[Block]:
    return list(Corpus.of(path, Reading(**options)).blocks())


def documents(path: Path, **options: Any) -> list[str]:
    return [text for block in blocks(path, **options) for text in block.documents()]


@fast
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.integers(1, 5), st.integers(1, 5))
def test_each_row_is_a_document_whatever_the_groups(tmp_path: Path, values: list[str], group: int, rows: int) -> None:
    path = written(tmp_path / "a.parquet", values, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_ROWS", rows)
        found = blocks(path)
    expected = [value.replace("\r\n", "\n") for value in values]
    assert [text for block in found for text in block.documents()] == expected
    places = [block.locate(i + 1) for block in found for i in range(len(block.documents()))]
    assert places == [f"{path}, row {i + 1}" for i in range(len(values))]
    lines = [line for text in expected for line in text.removesuffix("\n").split("\n")]
    assert documents(path, document="line") == lines


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd"])
def test_every_compression_reads_the_same_and_progress_reaches_the_size(tmp_path: Path, codec: str) -> None:
    values = [f"document {i}\nof two lines" for i in range(5000)]
    path = written(tmp_path / "a.parquet", values, compression=codec)
    source = Corpus.of(path)
    told: list[tuple[str, float, float | None]] = []
    read = [text for block in source.blocks(lambda *args: told.append(args)) for text in block.documents()]
    assert read == values
    size = path.stat().st_size
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1] == ("reading", size, size)
    assert len(told) > 3
    assert source.digests == {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}


@pytest.mark.parametrize("kind", [pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())])
def test_every_kind_of_strings_can_be_read(tmp_path: Path, kind: pyarrow.DataType) -> None:
    column = pyarrow.array(["a", "b\nc", "a"]).cast(kind)
    assert documents(written(tmp_path / "a.parquet", column, "body"), field="body") == ["a", "b\nc", "a"]


@pytest.mark.parametrize(
    ("values", "field", "told"),
    [
        (["a"], "body", "there is no column 'body'; there are 'id', 'text'; choose one with Reading\\(field=...\\)"),
        (["a"], "id", "the column 'id' has type int64; expected strings"),
        (["a", None], "text", "row 2: the field 'text' is null, expected a string"),
        (["a", b"\xe9"], "text", "row 2: byte 0xe9 at offset 0 of the field is not UTF-8"),
    ],
)
def test_an_error_about_a_column_or_value_names_its_row(
    tmp_path: Path, values: list[Any], field: str, told: str
) -> None:
    column = pyarrow.array(values, pyarrow.binary())
    path = written(tmp_path / "a.parquet", column if b"\xe9" in values else values)
    with pytest.raises(TextError, match=rf"^{path}(: |, ){told}"):
        blocks(path, field=field)


@pytest.mark.parametrize(("rule", "expected"), [("replace", ["a\ufffd", "\ufffdb"]), ("skip", ["a", "b"])])
def test_what_is_not_utf8_is_repaired_and_counted(tmp_path: Path, rule: Any, expected: list[str]) -> None:
    path = written(tmp_path / "a.parquet", pyarrow.array([b"a\xff", b"\xffb"], pyarrow.binary()))
    source = Corpus.of(path, Reading(encoding_errors=rule))
    assert [text for block in source.blocks() for text in block.documents()] == expected
    assert source.repairs == {str(path): 2}


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "magic alone"])
def test_what_is_no_whole_parquet_file_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    whole = written(tmp_path / "whole.parquet", ["a"] * 100).read_bytes()
    path = tmp_path / "a.parquet"
    path.write_bytes({"empty": b"", "text": b"a b c\n" * 9, "cut": whole[:-20], "magic alone": b"PAR1"}[damage])
    with pytest.raises(TextError, match=rf"^{path}: is not a whole Parquet file: \S"):
        blocks(path)


@settings(fast, derandomize=True)  # whether pyarrow itself stands every damage is not ours to search for
@given(st.data())
def test_whatever_happens_to_a_file_nothing_but_a_text_error_comes_of_it(tmp_path: Path, data: st.DataObject) -> None:
    whole = written(tmp_path / "whole.parquet", [f"text {i}" for i in range(20)]).read_bytes()
    broken = bytearray(whole)
    for place in data.draw(st.lists(st.integers(0, len(broken) - 1), min_size=1, max_size=3)):
        broken[place] = data.draw(st.integers(0, 255))
    path = tmp_path / "a.parquet"
    path.write_bytes(broken)
    with suppress(TextError):
        blocks(path)


def test_a_file_that_gives_very_much_more_than_its_size_is_refused(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", ["x" * 100_000] * 500)  # one string in a dictionary
    monkeypatch.setattr(parquet, "EXPANSION_BYTES", 1 << 20)
    with pytest.raises(TextError, match=r"times its own size, like a decompression bomb"):
        blocks(path)


def test_a_missing_library_is_an_error_that_names_the_extra(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path / "a.parquet", ["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TextError, match=rf"^{path}: Parquet needs the library pyarrow; .*'chainrule\[parquet\]'"):
        blocks(path)


def test_an_empty_table_has_no_text(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="there is no text in it; at least one document is needed"):
        blocks(written(tmp_path / "a.parquet", []))
