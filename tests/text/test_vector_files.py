"""Word vectors from files as programs write them, and from files that are broken."""

from __future__ import annotations

import bz2
import gzip
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import examples

from chainrule.errors import ChainruleError, TextError
from chainrule.text.vector_files import read_all_vectors, read_vectors, words_of_file

if TYPE_CHECKING:
    from pathlib import Path

TOKENS = [b"<unk>", b"<s>", b"</s>", b"cat", "\N{HALFWIDTH BLACK SQUARE},".encode(), "naïve".encode(), b",", b"dog"]
ROWS = {b"</s>": (9.0, 0.5, -1.0), b"cat": (1.0, 2.0, 3.0), b",": (-0.25, 0.0, 1e-3), "naïve".encode(): (4.0, 5.0, 6.0)}
OTHERS = {b"zebra": (7.0, 7.0, 7.0), b"of": (1.0, 1.0, 1.0)}
EXPECTED = {2: ROWS[b"</s>"], 3: ROWS[b"cat"], 4: ROWS[b","], 5: ROWS["naïve".encode()], 6: ROWS[b","]}


def as_text(rows: dict[bytes, tuple[float, ...]], header: bool, end: bytes = b"\n") -> bytes:
    lines = [b"%s %s" % (word, " ".join(map(str, row)).encode()) for word, row in rows.items()]
    return (b"%d 3\n" % len(rows) if header else b"") + b"".join(line + end for line in lines)


def as_binary(rows: dict[bytes, tuple[float, ...]], end: bytes = b"\n") -> bytes:
    words = b"".join(b"%s %s%s" % (word, struct.pack("<3f", *row), end) for word, row in rows.items())
    return b"%d 3\n" % len(rows) + words


ALL = OTHERS | ROWS
FILES = {
    "GloVe": as_text(ALL, header=False),
    "word2vec": as_text(ALL, header=True),
    "word2vec, as the first program wrote it, a space before each newline": as_text(ALL, header=True, end=b" \n"),
    "with carriage returns": as_text(ALL, header=True, end=b"\r\n"),
    "without the last newline": as_text(ALL, header=False).rstrip(),
    "parted by two spaces": as_text(ALL, header=False).replace(b" ", b"  "),
    "parted by two spaces, and by as many in all": as_text(ALL, header=True).replace(b" 0", b"  0"),
    "parted by tabs": as_text(ALL, header=False).replace(b" ", b"\t"),
    "binary": as_binary(ALL),
    "binary without newlines, as gensim writes it": as_binary(ALL, end=b""),
    "tokens with spaces in them, as in GloVe of 840 billion tokens": b"a name@domain.com 5 5 5\n. . . 1 1 1\n"
    + as_text(ALL, header=False),
    "one that is no UTF-8": b"\xff\xfe 1 1 1\n" + as_text(ALL, header=False),
}


def read(path: Path, data: bytes, name: str = "vectors"):
    (path / name).write_bytes(data)
    return read_vectors(str(path / name), TOKENS)


def found_in(path: Path, data: bytes, name: str = "vectors") -> dict[int, tuple[float, ...]]:
    vectors = read(path, data, name)
    assert vectors.rows.dtype == np.float32
    return {token: tuple(row) for token, row in zip(vectors.ids.tolist(), vectors.rows.tolist(), strict=True)}


@pytest.mark.parametrize("kind", FILES)
def test_every_kind_of_file_gives_the_vectors_of_the_vocabulary(kind: str, tmp_path: Path) -> None:
    found = found_in(tmp_path, FILES[kind])
    assert found.keys() == EXPECTED.keys()
    for token, row in EXPECTED.items():
        np.testing.assert_allclose(found[token], row, rtol=1e-6)


def test_compressed_files_are_read(tmp_path: Path) -> None:
    assert found_in(tmp_path, gzip.compress(FILES["binary"]), "a.bin.gz").keys() == EXPECTED.keys()
    assert found_in(tmp_path, bz2.compress(FILES["GloVe"]), "a.txt.bz2").keys() == EXPECTED.keys()
    with pytest.raises(TextError, match=r"a\.gz: cannot be read"):
        read(tmp_path, gzip.compress(FILES["GloVe"])[:-9], "a.gz")


def test_a_file_without_any_word_of_the_vocabulary_is_read(tmp_path: Path) -> None:
    vectors = read(tmp_path, as_text(OTHERS, header=True))
    assert (vectors.ids.size, vectors.rows.shape) == (0, (0, 3))


@pytest.mark.parametrize("end", [b"", b"zebra 3 3 3\nzebra 1 1 1\n"])
def test_the_first_row_of_a_word_counts(end: bytes, tmp_path: Path) -> None:
    data = as_text(ROWS, header=False) + b"cat 7 7 7\n, 8 8 8\n" + end
    vectors = read(tmp_path, data)
    assert vectors.repeated == 2
    assert {token: tuple(row) for token, row in zip(vectors.ids.tolist(), vectors.rows, strict=True)} == {
        token: tuple(np.float32(row)) for token, row in EXPECTED.items()
    }
    words, rows, repeated = read_all_vectors(str(tmp_path / "vectors"))
    assert words == [*ROWS, *[b"zebra"][: len(end)]]
    assert repeated == [b"cat", b",", *[b"zebra"][: len(end)]]
    np.testing.assert_array_equal(rows[:4], np.float32(list(ROWS.values())))
    assert words_of_file(str(tmp_path / "vectors")) == words


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "its first line is neither a word with numbers"),
        (b"cat\ndog\n", "its first line is neither a word with numbers"),
        (b"3 0\n", "its first line is neither a word"),
        (b"3 99999999999\ncat 1", "its first line is neither a word"),
        (b"\0\1\2\3" * 99, "its first line is neither a word"),
        (b"cat 1 2 3\ndog 1 2\n", "line 2 has 2 numbers after its word; expected 3, as above"),
        (b"cat 1 2 3\ndog 1_0 2 3\n", "line 2, 'dog', has something other than a finite number"),
        (b"cat 1 2 3\ndog 1\n", "line 2 has 1 number after its word; expected 3, as above"),
        (b"cat 1 2 3\ndog 1 2 3 4\n", "line 2 has 4 numbers after its word; expected 3"),
        (b"cat 1 2 3\nzebra 1 2\n", "line 2 has 2 numbers"),
        (b"cat 1 2 3\ndog 1  2\n", "line 2 has 2 numbers"),
        (b"cat 1 2 3\ndog 1 \v2\n", "line 2 has 2 numbers"),
        (b"2 3\ncat 1 2 3\ndog 1 2", "line 3 has 2 numbers"),
        (b"cat 1 2 3\ndog 1 x 3\n", "line 2, 'dog', has something other than a finite number"),
        (b"cat 1 2 3\ndog 1 nan 3\n", "line 2, 'dog', has something other than a finite number"),
        (b"cat 1 2 3\ndog 1 1e99 3\n", "line 2, 'dog', has something other than a finite number"),
        (b"3 2\ncat 1 x\ndog 1 2\nof 3 4\n", "line 2, 'cat', has something other than a finite number"),
        (b"999999999999 4\none line of text\n", "line 2 has 0 numbers after its word; expected 4"),
        (b"9 3\ncat 1 2 3\n", "its first line says 9 words, but there are 1; it is cut short"),
        (b"1 3\ncat 1 2 3\ndog 1 2 3\n", "its first line says 1 words, but there are 2"),
        (as_binary(ALL)[:-6], "ends in the middle of word 6 of 6"),
        (as_binary(ALL)[:30], "ends in the middle of word 2 of 6"),
        (as_binary(ALL) + b"more", "has more than the 6 words"),
        (as_binary({b"cat": (1.0, float("inf"), 2.0)}), "word 1, 'cat', has something other than a finite number"),
        (b"cat " + b"1" * (1 << 20), "a line has over 1,048,576 bytes"),
    ],
)
def test_a_broken_file_is_an_error_that_says_where(data: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(TextError, match=f"vectors: .*{message}"):
        read(tmp_path, data)
    with pytest.raises(TextError, match=f"vectors: .*{message}"):
        read_all_vectors(str(tmp_path / "vectors"))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"none\.txt: cannot be read"):
        read_vectors(str(tmp_path / "none.txt"), TOKENS)


@examples(3)
@given(st.sampled_from(["GloVe", "word2vec", "binary"]), st.data())
def test_broken_at_random_a_file_gives_sound_numbers_or_an_error(tmp_path_factory, kind: str, data) -> None:
    content = bytearray(FILES[kind])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(1, len(content))) :]
    try:
        vectors = read(tmp_path_factory.getbasetemp(), bytes(content))
    except ChainruleError:
        return
    assert np.isfinite(vectors.rows).all()
    assert len(set(vectors.ids.tolist())) == len(vectors.ids) == len(vectors.rows)
