"""Held-out lines."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.errors import TextError
from chainrule.text.corpus import Corpus, Lines
from chainrule.text.splits import Part, train_and_heldout


def lines_of(part: Part) -> list[str]:
    return [line for block in part.blocks() for line in block.documents()]


@given(st.integers(10, 1200))
@example(499)
@example(500)
@example(501)
def test_every_tenth_run_of_50_lines_is_held_out_and_every_tenth_line_of_a_short_text(size: int) -> None:
    lines = [str(i) for i in range(size)]
    expected: tuple[list[str], list[str]] = ([], [])
    for i, line in enumerate(lines):
        is_heldout = (i // 50) % 10 == 9 if size >= 500 else i % 10 == 9
        expected[is_heldout].append(line)
    train, heldout = train_and_heldout(Lines(lines))
    assert (lines_of(train), lines_of(heldout)) == expected
    assert len(lines_of(heldout)) > 0


def test_each_block_knows_its_place_in_the_whole_text(tmp_path) -> None:
    names = [str(tmp_path / name) for name in ("a", "b")]
    texts = [[f"{name} {i}" for i in range(1, size + 1)] for name, size in zip("ab", (333, 444), strict=True)]
    for name, lines in zip(names, texts, strict=True):
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    for part in train_and_heldout(Corpus.of(names)):
        for block in part.blocks():
            whole = texts[names.index(block.source)]
            assert block.documents() == whole[block.first - 1 :][: len(block.documents())]
            assert block.text.flags.writeable  # or kernels would be compiled anew for it
            assert block.text.dtype == np.uint8


def test_the_text_is_not_changed(tmp_path) -> None:
    odd = ["a\x0bb\x0c c", "\u2028", "", "d\re", "\x85é"] * 4
    (tmp_path / "odd").write_bytes("".join(line + "\n" for line in odd).encode())
    train, heldout = train_and_heldout(Corpus.of(tmp_path / "odd"))
    assert lines_of(train) == odd[:9] + odd[10:19]
    assert lines_of(heldout) == [odd[9], odd[19]]


def test_a_part_has_a_name_and_the_digest_of_its_text() -> None:
    train, heldout = train_and_heldout(Lines([str(i) for i in range(20)], "numbers"))
    assert (train.sources, heldout.sources) == (("nine tenths of numbers",), ("one tenth of numbers",))
    assert heldout.record["data"] == {"one tenth of numbers": hashlib.sha256(b"9\n19\n").hexdigest()}


def test_a_part_tells_its_progress_and_can_be_read_again() -> None:
    part, _ = train_and_heldout(Lines([str(i) for i in range(30)]))
    told: list[tuple[str, float, float | None]] = []
    first = [block.documents() for block in part.blocks(lambda *args: told.append(args), "measuring")]
    assert told == [("measuring", i, 3) for i in (1, 2, 3)]
    assert [block.documents() for block in part.blocks()] == first


@pytest.mark.parametrize(("size", "told"), [(1, "1 line"), (9, "9 lines")])
def test_a_text_of_fewer_than_ten_lines_is_refused(size: int, told: str) -> None:
    with pytest.raises(TextError, match=f"^few: has {told}; at least 10 are needed"):
        train_and_heldout(Lines(["x"] * size, "few"))
