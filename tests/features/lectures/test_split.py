"""chainrule split."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest

from chainrule.text.corpus.corpus import Corpus
from chainrule.text.corpus.splits import train_and_heldout

if TYPE_CHECKING:
    from pathlib import Path


def documents(path: Path) -> list[str]:
    return [text for block in Corpus.of(path).blocks() for text in block.documents()]


def test_the_parts_are_those_that_compare_measures_on(chainrule, corpus: Path, tmp_path: Path) -> None:
    train, test = tmp_path / "train.txt", tmp_path / "test.txt.zst"
    result = chainrule("split", corpus, "--into", f"{train}=0.9", f"{test}=0.1")
    assert (result.status, result.err) == (0, "")
    assert result.lines[0].split() == ["part", "documents", "share", "bytes"]
    assert result.lines[-1].split()[:3] == [str(test), "100", "8.33%"]  # two runs of 24
    for path, part in zip((train, test), train_and_heldout(Corpus.of(corpus)), strict=True):
        assert documents(path) == [text for block in part.blocks() for text in block.documents()]


def test_python_writes_the_same_files(chainrule, corpus: Path, tmp_path: Path) -> None:
    import chainrule as library

    shares = {f"{tmp_path}/a.txt": 0.75, f"{tmp_path}/b.jsonl": 0.25}
    files = library.write_split(Corpus.of(corpus), shares)
    given = [f"{tmp_path / name}={share}" for name, share in (("c.txt", 0.75), ("d.jsonl", 0.25))]
    rows = chainrule("split", corpus, "--into", *given, "--json").json
    assert [(row["documents"], row["bytes"]) for row in rows] == [(f.documents, f.bytes) for f in files.values()]
    assert list(files) == [*shares]
    for ours, theirs in (("a.txt", "c.txt"), ("b.jsonl", "d.jsonl")):
        assert (tmp_path / ours).read_bytes() == (tmp_path / theirs).read_bytes()
    with pytest.raises(library.OutputError, match="exists already"):
        library.write_split(Corpus.of(corpus), shares)


def test_records_keep_their_newlines_and_their_field(chainrule, tmp_path: Path) -> None:
    texts = [f"document {i}\nof two lines" for i in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"body": text}) + "\n" for text in texts))
    parts = [tmp_path / "1.jsonl", tmp_path / "2.jsonl.gz"]
    into = ["--into", f"{parts[0]}=1/3", f"{parts[1]}=2/3"]
    result = chainrule("split", tmp_path / "a.jsonl", "--field", "body", "--json", *into)
    assert [part["file"] for part in result.json] == [str(part) for part in parts]
    assert sum(part["documents"] for part in result.json) == 60
    found = [json.loads(line)["body"] for line in parts[0].read_text().splitlines()]
    assert set(found) < set(texts)
    assert result.json[0]["documents"] == len(found)
    assert result.err == ""


def test_a_part_named_by_two_spellings_or_by_a_link_is_refused(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    for other in ("./a.txt", str(tmp_path / "a.txt"), "link"):
        result = chainrule("split", corpus, "--into", "a.txt=0.5", f"{other}=0.5", "--overwrite")
        assert f"--into names a.txt twice, also as {other}." in result.error
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize(
    ("into", "told"),
    [
        (["TEXT=0.5", "b.txt=0.5"], "is one of the files to read; choose another name"),
        (["taken.txt=0.5", "b.txt=0.5"], "exists already; use --overwrite to replace it"),
        (["no/a.txt=0.5", "b.txt=0.5"], "there is no folder"),
        (["folder=0.5", "b.txt=0.5"], "this is a folder; name a file"),
        (["a.txt=0.5", "b.txt=0.4"], "the shares 0.5 + 0.4 add up to 0.9, expected 1"),
        (["a.txt=half", "b.txt=0.5"], "a share is 'half', expected a number above 0"),
        (["a.txt=0.99999", "b.txt=0.00001"], "has 1200 documents; at least 100000 are needed"),
    ],
)
def test_bad_input_is_an_error_and_changes_nothing(
    into: list[str], told: str, chainrule, corpus: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "TEXT").write_bytes(corpus.read_bytes())
    (tmp_path / "taken.txt").write_text("mine\n")
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.iterdir())
    assert told in chainrule("split", "TEXT", "--into", *into).error
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "taken.txt").read_text() == "mine\n"


def test_what_is_not_utf8_is_noted(chainrule, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n" * 20)
    into = ["--into", f"{tmp_path}/1=0.5", f"{tmp_path}/2=0.5"]
    assert "line 1: byte 0xe9 at offset 3 is not UTF-8" in chainrule("split", tmp_path / "a.txt", *into).error
    result = chainrule("split", tmp_path / "a.txt", "--encoding-errors", "replace", *into)
    assert result.err == f"note: {tmp_path}/a.txt: not UTF-8 in 20 places, replaced or skipped as you asked\n"
    assert documents(tmp_path / "1") == ["caf\ufffd"] * 10


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("missing.txt", None, "there is no such file"),
        ("empty.txt", b"", "there is no text in it; at least one document is needed"),
        ("cut.txt.gz", gzip.compress(b"a\n" * 999, mtime=0)[:-9], "cannot be read: "),
        ("binary.txt", b"\x7fELF\0\xff", "it looks like a binary file"),
        ("lines.jsonl", b'{"text": "a\\nb"}\n' * 9, "line 1: the document has newlines, but"),
    ],
)
def test_a_text_that_cannot_be_split_leaves_nothing(
    name: str, content: bytes | None, told: str, chainrule, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = sorted(tmp_path.iterdir())
    assert told in chainrule("split", tmp_path / name, "--into", f"{tmp_path}/1=0.5", f"{tmp_path}/2=0.5").error
    assert sorted(tmp_path.iterdir()) == before
