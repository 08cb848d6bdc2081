"""Co-occurrences from files: lines in any order and GloVe's records; what is wrong with them is said."""

from __future__ import annotations

import numpy as np
import pytest

from chainrule.errors import TextError
from chainrule.features.vectors.learning.cooccurrences import RECORD, read_cooccurrence_file

LINES = "b\ta\t2\na\tb\t0.5\n\na\tz\t1\nb\ta\t1\n"


def test_lines_in_any_order_are_added_up(tmp_path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(LINES)
    read = read_cooccurrence_file(path)
    assert read.words == [b"b", b"a", b"z"]  # by their first lines, then those that are contexts alone
    assert read.counted.dense().tolist() == [[0, 3, 0], [0.5, 0, 1], [0, 0, 0]]


def test_records_of_glove(tmp_path) -> None:
    path = tmp_path / "pairs.bin"
    np.array([(2, 1, 0.5), (1, 2, 3.0), (2, 3, 1.0)], RECORD).tofile(path)
    (tmp_path / "pairs.vocab.txt").write_text("b 9\na 5\nz 1\n")
    read = read_cooccurrence_file(path)
    assert (read.words, read.occurrences) == ([b"b", b"a", b"z"], [9, 5, 1])
    assert read.counted.dense().tolist() == [[0, 3, 0], [0.5, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("a b 1\na b\n", "line 2: 'a b' is not a co-occurrence"),
        ("a b 1\na b -1\n", "line 2"),
        ("a b 1\na b nan\n", "line 2"),
        ("a b 1\na b 1e300\n", "line 2"),
        ("a b c d\n", "line 1"),
        ("a </s> 1\n", "</s> is a marker"),
        (b"a \xff 1\n", "not UTF-8"),
    ],
)
def test_lines_that_are_wrong(tmp_path, content, message) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TextError, match=message):
        read_cooccurrence_file(path)


@pytest.mark.parametrize(
    ("records", "vocabulary", "message"),
    [
        ([], "a 1\n", "empty or cut short"),
        ([(1, 2, 1.0)], None, "expected in .*pairs.vocab.txt"),
        ([(1, 3, 1.0)], "a 1\nb 1\n", "record 1 is .*from 1 to 2"),
        ([(1, 2, 1.0), (0, 1, 1.0)], "a 1\nb 1\n", "record 2"),
        ([(1, 2, float("inf"))], "a 1\nb 1\n", "record 1"),
        ([(1, 2, 1.0)], "a 1\na 1\n", "'a' has two lines"),
        ([(1, 2, 1.0)], "a 1\nb\n", "line 2"),
    ],
)
def test_records_that_are_wrong(tmp_path, records, vocabulary, message) -> None:
    np.array(records, RECORD).tofile(tmp_path / "pairs.bin")
    if vocabulary is not None:
        (tmp_path / "pairs.vocab.txt").write_text(vocabulary)
    with pytest.raises(TextError, match=message):
        read_cooccurrence_file(tmp_path / "pairs.bin")
