"""CSV and TSV as records, against Python's own reader of whole files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ChainruleError
from chainrule.text.corpus import plain_text
from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.reading import Reading

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = ["plain", "a, comma", 'a "quote"', "two\nlines", "", "café; ☕", " spaces ", "x" * 50]


def written(delimiter: str = ",") -> str:
    """Texts as RFC 4180 has them."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerows([["id", "text"], *enumerate(TEXTS)])
    return out.getvalue()


def texts_in(path: Path, **reading: object) -> list[str]:
    return [text for block in Corpus.of(path, Reading(**reading)).blocks() for text in block.documents()]  # type: ignore[arg-type]


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("block_bytes", [8, 1 << 23])
def test_cells_are_texts_however_they_are_cut_into_blocks(
    delimiter: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", block_bytes)
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + written(delimiter).encode())
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(written(delimiter).encode()))
    assert texts_in(tmp_path / "t.csv") == texts_in(tmp_path / "t.csv.gz") == TEXTS
    assert texts_in(tmp_path / "t.csv", field="id") == [str(i) for i in range(len(TEXTS))]
    by_line = texts_in(tmp_path / "t.csv", document="line")
    assert by_line == [line for text in TEXTS for line in text.split("\n")]


def test_a_model_of_a_table_is_that_of_its_texts(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(written())
    records = [json.dumps({"text": text}) + "\n" for text in TEXTS]
    (tmp_path / "t.jsonl").write_text("".join(records))
    config = chainrule.NGramConfig(order=2)
    models = [chainrule.train(tmp_path / name, config) for name in ("t.csv", "t.jsonl")]
    scores = [model.score(["a comma", "café"]) for model in models]
    assert np.array_equal(*scores)


def test_tsv_is_a_table_where_records_are_asked_for_and_lines_otherwise(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text('id\ttext\n1\t"a" b\n')
    assert texts_in(tmp_path / "t.tsv", document="record") == ['"a" b']
    assert texts_in(tmp_path / "t.tsv") == ["id\ttext", '1\t"a" b']


def test_fields_stay_beside_their_texts(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow
    import pyarrow.parquet

    rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "t.csv").write_text(written())
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "t.parquet")
    for name in ("t.jsonl", "t.csv", "t.parquet"):
        for document in (None, "line"):
            corpus = Corpus.of(tmp_path / name, Reading(document=document)).with_fields()  # type: ignore[arg-type]
            found = []
            for block in corpus.blocks_as_they_come():
                for piece in block.pieces(16):
                    found += list(zip(piece.documents(), piece.fields or [], strict=True))
            assert [(text, int(fields["id"]), fields["text"]) for text, fields in found] == [
                (part, row["id"], row["text"])
                for row in rows
                for part in (str(row["text"]).split("\n") if document else [row["text"]])
            ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a,b\n1,2\n", "t.csv, line 1: the first line names the columns, and none is 'text'; there are 'a', 'b'"),
        ("text,text\n", "t.csv, line 1: two columns are called 'text'"),
        ("text,id\nx,1\n\ny,2,3\n", "t.csv, line 4: found 3 columns; expected 2: text, id"),
        ('text\nx\n"two\nlines\n', "t.csv, line 3: is not CSV: unexpected end of data"),
        ('text\n"a"b\n', "t.csv, line 2: is not CSV: "),
        ("", "there is no text in it"),
        ("text\n", "there is no text in it"),
    ],
)
def test_damaged_tables_name_the_line_and_what_is_wrong(data: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(data)
    with pytest.raises(ChainruleError) as raised:
        texts_in(tmp_path / "t.csv")
    assert message in str(raised.value)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "shift_jis", "utf8"])
def test_other_encodings_are_read_as_utf_8_is(encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["plain", "", "日本 ka" if encoding.startswith(("shift", "utf")) else "café ä"]
    data = "".join(text + "\n" for text in texts).encode(encoding)
    (tmp_path / "t.txt").write_bytes(data)
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(data))
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", 7)
    for name in ("t.txt", "t.txt.gz"):
        assert texts_in(tmp_path / name, encoding=encoding) == texts
    table = "id,text\n" + "".join(f"{i},{text}\n" for i, text in enumerate(texts))
    (tmp_path / "t.csv").write_bytes(table.encode(encoding))
    assert texts_in(tmp_path / "t.csv", encoding=encoding) == texts


def test_what_is_not_in_the_encoding_is_an_error_or_repaired(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(b"plain\ncaf\xe9 \xff\n")
    with pytest.raises(ChainruleError, match="byte 0xe9 at offset 9 is no text in ascii"):
        texts_in(tmp_path / "t.txt", encoding="ascii")
    corpus = Corpus.of(tmp_path / "t.txt", Reading(encoding="ascii", encoding_errors="replace"))
    assert [text for block in corpus.blocks() for text in block.documents()] == ["plain", "caf\ufffd \ufffd"]
    assert list(corpus.repairs.values()) == [2]
    assert texts_in(tmp_path / "t.txt", encoding="ascii", encoding_errors="skip") == ["plain", "caf "]
    with pytest.raises(ChainruleError, match="encoding is 'rot13'"):
        Reading(encoding="rot13")
    assert Reading(encoding="latin-1").record["encoding"] == "latin-1"
    assert "encoding" not in Reading().record
