"""What a file's name says."""

from pathlib import Path
from typing import Any

import pytest

from chainrule.errors import SettingError
from chainrule.text.corpus.corpus import Corpus, read_as
from chainrule.text.corpus.reading import Reading, compression_suffix, document_in, text_suffix


@pytest.mark.parametrize(
    ("name", "suffix", "compression"),
    [
        ("a.txt", ".txt", ""),
        ("a.TXT.GZ", ".txt", ".gz"),
        ("folder.d/a.jsonl.zst", ".jsonl", ".zst"),
        ("a.gz", "", ".gz"),
        ("a", "", ""),
        ("-", "", ""),
        ("a.tar.xz.bz2", ".xz", ".bz2"),
    ],
)
def test_a_name_has_a_suffix_for_its_text_and_one_for_its_compression(name: str, suffix: str, compression: str) -> None:
    assert (text_suffix(name), compression_suffix(name)) == (suffix, compression)


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("a.txt", None, "plain"),
        ("a.txt", "record", "json"),
        ("-", "record", "json"),
        ("-", "file", "plain"),
        ("a.jsonl.gz", None, "json"),
        ("a.ndjson", "line", "json"),
        ("a.parquet", "record", "parquet"),
    ],
)
def test_the_format_follows_from_the_name_and_the_document(name: str, document, expected: str) -> None:
    assert Reading(document=document).format_of(name) == expected


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst", "a.parquet"])
def test_a_file_of_records_is_no_document(name: str) -> None:
    with pytest.raises(SettingError, match=f"^{name}: holds records, and document='file'"):
        Reading(document="file").format_of(name)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"document": "page"}, "document is 'page'; choose one of line, file, record"),
        ({"encoding_errors": "ignore"}, "no rule for encoding errors called 'ignore'; choose strict, replace, skip"),
        ({"field": ""}, "field is empty"),
        ({"suffixes": ("txt",)}, "suffixes: found txt, expected suffixes with their dot"),
        ({"suffixes": ()}, "suffixes: found none"),
    ],
)
def test_a_bad_setting_is_an_error(settings, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        Reading(**settings)


def test_a_folder_gives_what_its_suffixes_say_and_nothing_hidden() -> None:
    assert all(map(Reading().takes, ["a.txt", "x/b.JSONL.gz", "c.parquet"]))
    assert not any(map(Reading().takes, ["a.md", ".a.txt", "x/.b.txt.gz", "c.csv", "txt", "d.gz"]))
    assert Reading(suffixes=(".md",)).takes("a.md.bz2")


@pytest.mark.parametrize(
    ("records", "document"),
    [
        ([{"reading": {"document": "file"}}], "file"),
        ([{"reading": {"document": None}}], None),
        ([{}], None),  # an ARPA file's
        ([{}, {"reading": {"document": "line"}}], "line"),
        ([{"reading": {"document": "file"}}, {"reading": {"document": None}}], None),
        ([{"reading": {"document": "paragraph"}}], None),  # of another version, or edited
        ([{"reading": "file"}], None),
    ],
)
def test_records_tell_what_a_document_was_where_they_agree(records: list[dict[str, Any]], document: str | None) -> None:
    assert document_in(*records) == document


@pytest.mark.parametrize(
    ("name", "document", "expected"),
    [
        ("a.txt", "file", "file"),
        ("a.jsonl", "file", "record"),  # which holds records, and no document that is a file
        ("a.jsonl.gz", "line", "line"),
        ("a.txt", "record", "line"),
        ("a.json", "record", "record"),
        ("a.txt", None, "line"),
        ("a.parquet", None, "record"),
    ],
)
def test_a_text_is_read_as_another_one_was_where_it_can_be(name: str, document, expected: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    corpus = Corpus.of(tmp_path / name)
    assert read_as(corpus, document).documents == (expected,)
    said = Corpus.of(tmp_path / name, Reading(document="line"))
    assert read_as(said, document).documents == ("line",)
