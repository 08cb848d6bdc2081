"""Records of files: the same from every format, whole when they are written again; and what becomes of bad ones."""

from __future__ import annotations

import csv
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest

import chainrule
from chainrule.errors import OutputError, SettingError, TextError
from chainrule.text.corpus.reading import Reading
from chainrule.text.corpus.records import read_items, read_records

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    {"id": 1, "text": "plain", "by": "a b"},
    {"id": 2, "text": 'a "quote"', "by": '"'},
    {"id": 3, "text": '"he, too"', "by": "é ☕"},
    {"id": 4, "text": "x y", "by": "0.5"},
]


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as libraries write them."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        separator = "," if path.suffix == ".csv" else "\t"
        pandas.DataFrame(rows).to_csv(path, index=False, sep=separator)
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_every_format_gives_the_same_records(suffix: str, tmp_path: Path) -> None:
    path = written(tmp_path / f"a{suffix}", ROWS)
    found = list(read_records(str(path)))
    assert [{name: str(value) for name, value in record.fields.items()} for record in found] == [
        {name: str(value) for name, value in row.items()} for row in ROWS
    ]
    unit, first = ("row", 1) if suffix == ".parquet" else ("line", 1 + (suffix != ".jsonl"))
    assert [record.location for record in found] == [f"{path}, {unit} {first + i}" for i in range(4)]


def test_quotes_of_tsv_are_those_of_r_or_a_part_of_the_text(tmp_path: Path) -> None:
    """R's write.table puts all texts into quotes; GLUE's files have quotes that are quotations."""
    path = tmp_path / "a.tsv"
    path.write_text('"id"\t"text"\n1\t"a ""b"" c"\n2\t"d"\n')
    assert [record.fields["text"] for record in read_records(str(path))] == ['a "b" c', "d"]
    path.write_text('id\ttext\n1\t"d"\n2\t"e" f\n3\t"\n4\t"a ""b"" c"\n')
    assert [record.fields["text"] for record in read_records(str(path))] == ['"d"', '"e" f', '"', 'a "b" c']


def test_a_name_that_says_nothing_is_read_by_its_first_character(tmp_path: Path) -> None:
    for text in ('\n{"a": "1", "b": "2"}\n', "a\tb\n1\t2\n"):
        (tmp_path / "x").write_text(text)
        assert [dict(record.fields) for record in read_records(str(tmp_path / "x"))] == [{"a": "1", "b": "2"}]


def test_all_that_is_wrong_with_a_file_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")

    def read(record: Any) -> str:
        if "c" not in record.fields:
            raise TextError("there is no c")
        return str(record.fields["c"])

    bad = chainrule.BadRecords("skip")
    with pytest.raises(TextError, match=r"a\.csv: there is no thing in it that can be read; .*line 2: there is no c"):
        read_items(str(tmp_path / "a.csv"), read, "thing", bad)
    assert bad.count == 2
    assert list(bad.notes()) == [f"{tmp_path / 'a.csv'}, line 2 and 1 other record: there is no c"]


BAD = '{"text": "a b"}\nno JSON\n{"text": 5}\n{"other": "x"}\n{"text": "b a", "n": 3}\n{"other": "y"}\n'


def test_bad_records_are_skipped_counted_and_kept(tmp_path: Path) -> None:
    path, out = tmp_path / "a.jsonl", tmp_path / "bad.csv"
    path.write_text(BAD)
    corpus = chainrule.Corpus.of(path, Reading(bad_records="skip", bad_records_out=str(out)))
    for _ in range(2):  # reading twice counts once
        assert [text for block in corpus.blocks() for text in block.documents()] == ["a b", "b a"]
    assert corpus.record["skipped"] == 4
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    lines = BAD.splitlines()
    assert [(row["place"].rpartition(" ")[2], row["record"]) for row in rows] == [
        (str(number), lines[number - 1]) for number in (2, 3, 4, 6)
    ]
    assert [row["error"].partition(";")[0] for row in rows[1:]] == [
        "the field 'text' is a number, expected a string",
        "there is no field 'text'",
        "there is no field 'text'",
    ]
    assert list(corpus.bad.notes())[2:] == [
        f"{path}, line 4 and 1 other record: there is no field 'text'; there are 'other'; choose one with "
        "Reading(field=...)",
        "4 records were skipped",
    ]
    with pytest.raises(TextError, match="line 2: is not JSON"):
        list(chainrule.Corpus.of(path).blocks())


@pytest.mark.parametrize(
    ("name", "written_as", "bad"),
    [("t.csv", "text,n\na,1\nb\nc,2\n", ["b"]), ("t.tsv", "text\tn\na\t1\tx\nc\t2\n", ["a\t1\tx"])],
)
def test_rows_of_the_wrong_width_are_bad_records(name: str, written_as: str, bad: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_text(written_as)
    corpus = chainrule.Corpus.of(tmp_path / name, Reading(document="record", bad_records="skip"))
    assert "c" in [text for block in corpus.blocks() for text in block.documents()]
    assert [row["record"] for row in corpus.bad.to_records()] == bad


def test_nulls_of_parquet_are_bad_records_with_their_other_columns(tmp_path: Path) -> None:
    rows = [{"text": "a", "n": 1}, {"text": None, "n": 2}]
    path = written(tmp_path / "a.parquet", rows)
    reading = Reading(bad_records="skip", bad_records_out=str(tmp_path / "bad.jsonl"))
    assert [block.documents() for block in chainrule.Corpus.of(path, reading).blocks()] == [["a"]]
    [kept] = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert (kept["place"], json.loads(kept["record"])) == (f"{path}, row 2", rows[1])


def test_a_model_of_what_is_left_is_that_of_the_good_records(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text(BAD)
    written(tmp_path / "good.jsonl", [{"text": "a b"}, {"text": "b a"}])
    skipping = chainrule.Corpus.of(tmp_path / "bad.jsonl", Reading(bad_records="skip"))
    models = [chainrule.train(text, chainrule.NGramConfig(order=2)) for text in (skipping, tmp_path / "good.jsonl")]
    assert models[0].score(["a b a"]) == models[1].score(["a b a"])
    assert (models[0].record["skipped"], models[0].record["reading"]["bad_records"]) == (4, "skip")


def test_rules_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", ROWS)
    with pytest.raises(SettingError, match="bad_records_out is for skipped records"):
        Reading(bad_records="stop", bad_records_out="x.csv")
    with pytest.raises(SettingError, match="bad_records_out is for skipped records"):  # the default of texts is to stop
        chainrule.Corpus.of(path, Reading(bad_records_out="x.csv"))
    with pytest.raises(SettingError, match=r"bad_records_out is 'x\.txt'; the name of a table ends in"):
        chainrule.BadRecords("skip", "x.txt")
    with pytest.raises(OutputError, match="is one of the files to read"):
        chainrule.Corpus.of(path, Reading(bad_records="skip", bad_records_out=str(path)))


def rows_in(path: Path) -> list[dict[str, Any]]:
    """The rows of a file, as libraries read them."""
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    frame = pandas.read_parquet(path) if path.suffix == ".parquet" else pandas.read_csv(path, sep=None, engine="python")
    return list(frame.to_dict("records"))


@pytest.mark.spread(6)
@pytest.mark.parametrize("source", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("target", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_split_writes_whole_records(source: str, target: str, tmp_path: Path) -> None:
    rows = [{"id": i, "text": f'a "b" {i}', "by": f"x, {i}", "rate": i / 4} for i in range(30)]
    corpus = chainrule.Corpus.of(written(tmp_path / f"a{source}", rows))
    parts = [tmp_path / f"train{target}", tmp_path / f"test{target}"]
    files = chainrule.write_split(corpus, {str(parts[0]): 0.7, str(parts[1]): 0.3})
    found = [row for part in parts for row in rows_in(part)]

    def as_counted(rows: list[dict[str, Any]]) -> Counter[tuple[str, ...]]:
        return Counter(tuple(str(row[name]) for name in ("id", "text", "by", "rate")) for row in rows)

    assert as_counted(found) == as_counted(rows)
    assert [files[str(part)].documents for part in parts] == [len(rows_in(part)) for part in parts]
    assert [files[str(part)].bytes for part in parts] == [part.stat().st_size for part in parts]
    # and each part is read again as it was written
    again = chainrule.Corpus.of(parts, Reading(document="record"))
    texts = sorted(text for block in again.blocks() for text in block.documents())
    assert texts == sorted(str(row["text"]) for row in rows)


def test_records_of_lines_and_names_of_plain_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"body": f"one {i}\ntwo", "n": 12345678901234567890 + i} for i in range(4)])
    lines = chainrule.Corpus.of(path, Reading(field="body", document="line"))
    chainrule.write_split(lines, {str(tmp_path / "x.jsonl"): "1/2", str(tmp_path / "y.txt"): "1/2"})
    found = rows_in(tmp_path / "x.jsonl")
    assert all(row["n"] >= 12345678901234567890 and "\n" not in row["body"] for row in found)
    assert len(found) + len((tmp_path / "y.txt").read_text().splitlines()) == 8
    # TSV that is read as lines is written as lines
    (tmp_path / "plain.tsv").write_text("".join(f"a {i}\tx\n" for i in range(20)))
    chainrule.write_split(
        chainrule.Corpus.of(tmp_path / "plain.tsv"), {str(tmp_path / "p.tsv"): 0.5, str(tmp_path / "q.tsv"): 0.5}
    )
    both = [(tmp_path / f"{name}.tsv").read_text().splitlines() for name in "pq"]
    assert sorted([*both[0], *both[1]]) == sorted((tmp_path / "plain.tsv").read_text().splitlines())


def test_what_has_no_room_in_tsv_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", [{"text": "a", "by": "x\ty"}, {"text": "b", "by": ""}])
    with pytest.raises(TextError, match=r"the field 'by' has a tab or a line end, for which TSV has no room"):
        chainrule.write_split(chainrule.Corpus.of(path), {str(tmp_path / "x.tsv"): 1})
