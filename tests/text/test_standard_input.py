"""Texts from standard input and pipes."""

import hashlib
import io
import os
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from text_files import COMPRESSORS, file_of, text_of

from chainrule.errors import TextError
from chainrule.text.corpus import plain_text
from chainrule.text.corpus.corpus import Corpus


def test_standard_input_is_a_source_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\r\nb")))
    source = Corpus.of(["-", file_of(tmp_path, b"c\n")])
    blocks = list(source.blocks())
    assert [(block.source, block.text.tobytes()) for block in blocks] == [
        ("-", b"a\n"),
        ("-", b"b\n"),
        (source.sources[1], b"c\n"),
    ]
    assert source.digests["-"] == hashlib.sha256(b"\xef\xbb\xbfa\r\nb").hexdigest()


def test_empty_standard_input_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(TextError, match=r"^-: there is no text in it"):
        text_of(Corpus.of("-"))


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs pipes that have a name")
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_pipe_that_has_a_name_can_be_read(tmp_path: Path, suffix: str) -> None:
    data = COMPRESSORS.get(suffix, bytes)(b"a\nb\n" * 1000)
    name = str(tmp_path / f"pipe{suffix}")
    os.mkfifo(name)
    writer = threading.Thread(target=lambda: Path(name).write_bytes(data))
    writer.start()
    assert text_of(Corpus.of(name)) == b"a\nb\n" * 1000
    writer.join()


def test_lines_come_before_a_pipe_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr(sys, "stdin", stdin)
        blocks = Corpus.of("-").blocks_as_they_come()
        pipe.write(b"one\ntwo\nthr")
        assert next(blocks).text.tobytes() == b"one\ntwo\n"
        pipe.write("ee\r\nvier é".encode()[:-1])
        block = next(blocks)
        assert (block.text.tobytes(), block.first) == (b"three\n", 3)
        pipe.write("é".encode()[1:])
        pipe.close()
        block = next(blocks)
        assert (block.text.tobytes(), block.first) == ("vier é\n".encode(), 4)
        assert list(blocks) == []


def test_standard_input_can_be_named_once() -> None:
    with pytest.raises(TextError, match="can be read only once"):
        Corpus.of(["-", "-"])


def test_a_long_line_that_comes_in_small_pieces_is_kept_in_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [b"x" * 10] * 1000 + [b"\n"]

    class Trickle(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, room: Any) -> int:
            piece = pieces.pop(0) if pieces else b""
            room[: len(piece)] = piece
            return len(piece)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Trickle())))
    tracemalloc.start()
    (block,) = Corpus.of("-").blocks_as_they_come()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert block.text.tobytes() == b"x" * 10_000 + b"\n"
    assert peak < 3 * plain_text.BLOCK_BYTES


def test_a_pipe_that_does_not_wait_is_no_end_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb"):
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(TextError, match=r"^-: cannot be read, since it is non-blocking"):
            text_of(Corpus.of("-"))
