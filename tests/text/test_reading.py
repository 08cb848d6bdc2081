"""What a file's name says."""

import pytest

from chainrule.errors import SettingError
from chainrule.text.reading import Reading, compression_suffix, text_suffix


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
    with pytest.raises(SettingError, match=f"^{name}: holds records, and --document file"):
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
def test_a_bad_setting_is_told(settings, told: str) -> None:
    with pytest.raises(SettingError, match=told):
        Reading(**settings)


def test_a_folder_gives_what_its_suffixes_say_and_nothing_hidden() -> None:
    assert all(map(Reading().takes, ["a.txt", "x/b.JSONL.gz", "c.parquet"]))
    assert not any(map(Reading().takes, ["a.md", ".a.txt", "x/.b.txt.gz", "c.csv", "txt", "d.gz"]))
    assert Reading(suffixes=(".md",)).takes("a.md.bz2")
