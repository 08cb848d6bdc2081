"""Files of every kind, whole and broken, against what the standard library reads from them."""

import gzip
import hashlib
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from text_files import COMPRESSORS, fast, file_of, text_of

import chainrule
from chainrule.base.files import read_file
from chainrule.errors import TextError
from chainrule.text.corpus import plain_text
from chainrule.text.corpus.block import Block, byte_array
from chainrule.text.corpus.corpus import Corpus, Lines, Source
from chainrule.text.corpus.reading import Reading
from chainrule.text.corpus.streams import open_stream

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def cleaned(data: bytes) -> bytes:
    """What is to be read from a file."""
    ended = data if data.endswith(b"\n") or not data else data + b"\n"
    return ended.removeprefix(BYTE_ORDER_MARK).replace(b"\r\n", b"\n")


pieces = st.sampled_from(
    ["a", "\n", "\r\n", "\r", " ", "é", "日本", "👩‍👧", "\0", "\ufeff", "\x85", "\u2028", "long" * 9]
)
file_texts = st.lists(pieces).map("".join) | st.text(st.characters(exclude_categories=["Cs"]))


@fast
@given(file_texts.filter(len), st.integers(1, 20))
@example("a\r\nb", 2)
@example("日\n本", 1)
@example("\ufeffa\n", 2)
@example("\r\n", 1)
def test_blocks_are_whole_lines_that_join_to_the_file_whatever_their_size(tmp_path: Path, text: str, size: int) -> None:
    source = Corpus.of(file_of(tmp_path, text.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "BLOCK_BYTES", size)
        blocks = list(source.blocks())
    assert b"".join(block.text.tobytes() for block in blocks) == cleaned(text.encode())
    assert all(block.text[-1] == ord("\n") for block in blocks)
    lines_before = itertools.accumulate([np.count_nonzero(block.text == ord("\n")) for block in blocks], initial=1)
    assert [block.first for block in blocks] == list(lines_before)[:-1]
    assert {block.source for block in blocks} == set(source.sources)
    assert source.digests == {source.sources[0]: hashlib.sha256(text.encode()).hexdigest()}


def test_a_block_can_be_written_to_since_compiled_kernels_want_that(tmp_path: Path) -> None:
    (block,) = Corpus.of(file_of(tmp_path, b"a\n")).blocks()
    assert block.text.flags.writeable


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\nb\n", b"a\nb\n"),
        (b"a\nb", b"a\nb\n"),
        (b"a\r\nb\r\n", b"a\nb\n"),
        (b"a\rb\n", b"a\rb\n"),
        (b"\n\n", b"\n\n"),
        (BYTE_ORDER_MARK + b"a\n" + BYTE_ORDER_MARK + b"b\n", b"a\n" + BYTE_ORDER_MARK + b"b\n"),
    ],
)
def test_all_line_ends_read_alike_and_a_byte_order_mark_is_dropped(
    tmp_path: Path, data: bytes, expected: bytes
) -> None:
    assert text_of(Corpus.of(file_of(tmp_path, data))) == expected


def test_a_missing_file_is_an_error_that_names_it() -> None:
    with pytest.raises(TextError, match=r"^no/such\.txt: there is no such file"):
        Corpus.of(["no/such.txt"])


def test_a_folder_without_text_is_an_error_that_names_the_expected_files(tmp_path: Path) -> None:
    file_of(tmp_path, b"a\n", "notes.md")
    with pytest.raises(TextError, match=r"no text in this folder, only 1 file of other kinds.* \.txt, \.jsonl.*suff"):
        Corpus.of(tmp_path)


def test_no_file_at_all_is_an_error() -> None:
    with pytest.raises(TextError, match="no text was given"):
        Corpus.of([])


@pytest.mark.parametrize("number", [1, 3])
def test_empty_files_are_an_error_that_names_all_of_them(tmp_path: Path, number: int) -> None:
    names = [file_of(tmp_path, b"", f"{i}.txt") for i in range(number)]
    with pytest.raises(TextError, match="no text in it") as caught:
        text_of(Corpus.of(names))
    assert all(name in str(caught.value) for name in names)


def test_an_empty_file_beside_others_is_no_error(tmp_path: Path) -> None:
    names = [file_of(tmp_path, data, f"{i}.txt") for i, data in enumerate([b"", b"a", b"", b"b\n"])]
    source = Corpus.of(names)
    assert text_of(source) == b"a\nb\n"
    assert list(source.digests) == names


def test_a_file_that_vanishes_after_it_was_named_is_an_error(tmp_path: Path) -> None:
    name = file_of(tmp_path, b"a\n")
    source = Corpus.of(name)
    os.unlink(name)
    with pytest.raises(TextError, match=r"text\.txt: cannot be read: No such file"):
        text_of(source)


def test_a_file_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    source = Corpus.of(file_of(tmp_path, b"a\n"))
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(TextError, match=r"text\.txt: cannot be read: Permission denied"):
        text_of(source)


def test_what_is_not_utf8_is_an_error_that_names_file_line_byte_and_offset(tmp_path: Path) -> None:
    name = file_of(tmp_path, b"abc\nd\xe9j\xe0 vu\n")
    with pytest.raises(TextError) as caught:
        text_of(Corpus.of(name))
    assert str(caught.value).startswith(f"{name}, line 2: byte 0xe9 at offset 5 is not UTF-8; convert it")


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
@pytest.mark.parametrize("start", [b"", BYTE_ORDER_MARK])
def test_the_place_of_a_bad_byte_is_right_deep_in_a_file(tmp_path: Path, suffix: str, start: bytes) -> None:
    good = start + "".join(f"zeile {i} äöü\r\n" for i in range(100)).encode() + b"x" * 50
    data = COMPRESSORS.get(suffix, bytes)(good + b"\xff rest\nmore\n")
    with pytest.raises(TextError, match=f"line 101: byte 0xff at offset {len(good)} is not UTF-8"):
        text_of(Corpus.of(file_of(tmp_path, data, "text" + suffix)))


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_cut_off_at_the_end_of_a_file_is_an_error(tmp_path: Path, cut: int) -> None:
    with pytest.raises(TextError, match="line 2: byte 0xf0 at offset 2 is not UTF-8"):
        text_of(Corpus.of(file_of(tmp_path, b"a\n" + "👩".encode()[:cut])))


def test_a_binary_file_is_called_one(tmp_path: Path) -> None:
    with pytest.raises(TextError, match="it looks like a binary file"):
        text_of(Corpus.of(file_of(tmp_path, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\n\0")))


@pytest.mark.parametrize("suffix", ["", *COMPRESSORS])
def test_lines_that_come_from_a_file_are_all_its_lines(tmp_path: Path, suffix: str) -> None:
    data = COMPRESSORS.get(suffix, bytes)(b"a line\n" * 10_000 + b"the last")
    blocks = Corpus.of(file_of(tmp_path, data, "text" + suffix)).blocks_as_they_come()
    assert b"".join(block.text.tobytes() for block in blocks) == b"a line\n" * 10_000 + b"the last\n"


@pytest.mark.usefixtures("small_blocks")
def test_progress_rises_to_the_size_of_all_files(tmp_path: Path) -> None:
    names = [
        file_of(tmp_path, b"a line\n" * 20, "1.txt"),
        file_of(tmp_path, b"", "2.txt"),
        file_of(tmp_path, gzip.compress(b"a line\n" * 20), "3.gz"),
        file_of(tmp_path, b"without an end", "4.txt"),
    ]
    told: list[tuple[str, float, float | None]] = []
    for _ in Corpus.of(names).blocks(lambda *args: told.append(args), "counting"):
        pass
    total = sum(os.path.getsize(name) for name in names)
    assert {(task, whole) for task, _, whole in told} == {("counting", total)}
    done = [place for _, place, _ in told]
    assert done == sorted(done)
    assert done[-1] == total
    assert len(set(done)) > 5


def test_a_digest_is_only_given_for_what_was_read_to_its_end(tmp_path: Path) -> None:
    source = Corpus.of([file_of(tmp_path, b"a\n", "1.txt"), file_of(tmp_path, b"b\n", "2.txt")])
    next(source.blocks())
    assert source.digests == {}
    text_of(source)
    assert text_of(source) == b"a\nb\n"  # a second pass
    assert list(source.digests.values()) == [hashlib.sha256(data).hexdigest() for data in (b"a\n", b"b\n")]


@fast
@given(st.lists(file_texts.map(lambda text: text.replace("\n", "").lstrip("\ufeff")), min_size=1, max_size=6))
def test_lines_in_memory_read_as_the_same_lines_of_a_file(tmp_path: Path, lines: list[str]) -> None:
    data = "".join(line + "\n" for line in lines).encode()
    assert text_of(Lines(lines)) == text_of(Corpus.of(file_of(tmp_path, data)))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a\n", b"a\n"),
        ("a\r\n", b"a\n"),
        ("a\nb", b"a b\n"),
        ("a\r\nb\n", b"a b\n"),
        ("", b"\n"),
        ("a\ud800", b"a?\n"),
    ],
)
def test_a_line_in_memory_stays_one_document(line: str, expected: bytes) -> None:
    source = Lines([line], "lines")
    assert text_of(source) == expected
    assert source.record["data"] == {"lines": hashlib.sha256(expected).hexdigest()}


def test_no_lines_are_an_error_that_names_them() -> None:
    with pytest.raises(TextError, match=r"^the samples: there is no text"):
        text_of(Lines([], "the samples"))


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_utf16_file_is_an_error_that_says_so(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffa text\n".encode(encoding))
    with pytest.raises(TextError, match=r"line 1: byte 0xf[ef] at offset 0 is not UTF-8; it looks like UTF-16"):
        list(Corpus.of(path).blocks())


def test_a_source_of_ones_own_can_be_read() -> None:
    class Poem:
        sources, record = ("a poem",), {"data": {"a poem": ""}}

        def blocks(self, *_: object) -> list[Block]:
            return [Block(byte_array(b"a rose\n"), "a poem", 1)]

    assert isinstance(Poem(), Source)
    assert chainrule.train(Poem(), chainrule.UniformConfig()).vocabulary_size == 5


def test_lines_that_can_be_read_once_are_kept() -> None:
    lines = Lines(line for line in ["a b", "c"])
    assert [block.documents() for block in lines.blocks()] == [["a b", "c"]]
    assert lines.record["data"] == {"the given lines": hashlib.sha256(b"a b\nc\n").hexdigest()}


@pytest.mark.parametrize("lines", [[1], [b"a"], [None]])
def test_lines_that_are_no_strings_are_a_type_error(lines: list[Any]) -> None:
    with pytest.raises(TypeError, match="Lines takes strings, not "):
        Lines(lines)


def test_a_folder_gives_its_files_and_those_of_its_folders_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "b/c", "a-", "empty", ".hidden"):
        (tmp_path / name).mkdir()
    texts = {"a-/x.txt": b"1\n", "a.txt": b"2", "b/B.txt": b"3\n", "b/a.TXT": b"4\n", "b/c/d.txt.gz": b"5\n"}
    for name, text in texts.items():
        file_of(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name)
    for other in (".hidden.txt", ".hidden/a.txt", "b/notes.md", "_SUCCESS"):
        file_of(tmp_path, b"\xff", other)
    file_of(tmp_path, b'{"text": "6"}', "c.jsonl")
    source = Corpus.of(tmp_path)
    blocks = list(source.blocks())
    assert [(block.source, block.documents()) for block in blocks] == [
        (str(tmp_path / name), [str(i)]) for i, name in enumerate([*texts, "c.jsonl"], 1)
    ]
    listing = [(name, text) for name, text in [*texts.items(), ("c.jsonl", b'{"text": "6"}')]]
    printed = "".join(f"{hashlib.sha256(text).hexdigest()}  ./{name}\n" for name, text in listing)  # by sha256sum
    assert source.digests == {str(tmp_path): hashlib.sha256(printed.encode()).hexdigest()}
    assert Corpus.of(tmp_path, Reading(suffixes=(".md",))).files == ((str(tmp_path / "b/notes.md"),),)


@fast
@given(file_texts, st.integers(1, 20))
@example("\ufeff", 4)
@example("a\nb\r\n", 1)
@example("", 1)
def test_a_whole_file_can_be_a_document(tmp_path: Path, text: str, size: int) -> None:
    name = file_of(tmp_path, text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "BLOCK_BYTES", size)
        (block,) = Corpus.of(name, Reading(document="file")).blocks()
    assert block.documents() == [cleaned(text.encode()).decode().removesuffix("\n")]
    assert block.locate(1) == name
    assert block.text.flags.writeable


@fast
@given(st.binary(), st.integers(1, 20), st.sampled_from(["replace", "skip"]))
@example("日本".encode()[:-1] + b"\r\n\xff\r\n", 2, "skip")
def test_what_is_not_utf8_is_repaired_as_python_does_whatever_the_blocks(
    tmp_path: Path, data: bytes, size: int, rule: Any
) -> None:
    name = file_of(tmp_path, data + b"\n")
    source = Corpus.of(name, Reading(encoding_errors=rule))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_text, "BLOCK_BYTES", size)
        found = text_of(source)
    python = (data + b"\n").decode(errors={"replace": "replace", "skip": "ignore"}[rule]).encode()
    assert found == cleaned(python)
    without = data.replace("\ufffd".encode(), b"?")  # the text's own
    assert source.repairs.get(name, 0) == without.decode(errors="replace").count("\ufffd")
    assert source.record["repaired"] == source.repairs
    assert source.record["reading"]["encoding_errors"] == rule


def test_a_second_pass_counts_repairs_anew(tmp_path: Path) -> None:
    source = Corpus.of(file_of(tmp_path, b"a\xffb\xfe\n"), Reading(encoding_errors="skip"))
    assert [text_of(source), text_of(source)] == [b"ab\n"] * 2
    assert list(source.repairs.values()) == [2]


def test_a_line_longer_than_the_bound_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "BLOCK_BYTES", 16)
    monkeypatch.setattr(plain_text, "DOCUMENT_BYTES", 100)
    assert len(text_of(Corpus.of(file_of(tmp_path, b"a\n" + b"x" * 90 + b"\n")))) == 93
    with pytest.raises(TextError, match="the document at offset 2 is longer than 100 bytes"):
        text_of(Corpus.of(file_of(tmp_path, b"a\n" + b"x" * 200)))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 100])
@pytest.mark.parametrize(
    "content", [b"", b"a", b"\xef", b"\xef\xbb", b"\xef\xbb\xbf", b"\xef\xbb\xbfka vi\n", b"\xef\xbb\xbd", b"ka"]
)
def test_a_byte_order_mark_is_left_out_of_texts_that_are_read_as_bytes(
    content: bytes, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    for wait in (True, False):
        with open_stream(str(path), is_text=True) as stream:
            found, room = b"", np.empty(size, np.uint8)
            while read := stream.fill(room, wait=wait):
                found += room[:read].tobytes()
            assert found == content.removeprefix(b"\xef\xbb\xbf")
            assert stream.hexdigest() == hashlib.sha256(content).hexdigest()
            assert stream.position == len(content)
    assert read_file(path, is_text=True) == content.removeprefix(b"\xef\xbb\xbf")
