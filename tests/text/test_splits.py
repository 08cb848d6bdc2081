"""Held-out lines."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chainrule.errors import TextError
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array
from chainrule.text.corpus.corpus import Corpus, Lines, Source
from chainrule.text.corpus.splits import Part, split, train_and_heldout

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_blocks_keep_their_line_numbers_in_the_whole_text(tmp_path) -> None:
    names = [str(tmp_path / name) for name in ("a", "b")]
    texts = [[f"{name} {i}" for i in range(1, size + 1)] for name, size in zip("ab", (333, 444), strict=True)]
    for name, lines in zip(names, texts, strict=True):
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(line + "\n" for line in lines)
    for part in train_and_heldout(Corpus.of(names)):
        for block in part.blocks():
            whole = texts[names.index(block.source)]
            places = [block.locate(i + 1) for i in range(len(block.documents()))]
            assert block.documents() == [whole[int(place.split()[-1]) - 1] for place in places]
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
    assert heldout.record["part_of"] == Lines([str(i) for i in range(20)], "numbers").record["data"]


def test_a_part_reports_progress_and_can_be_read_twice() -> None:
    part, _ = train_and_heldout(Lines([str(i) for i in range(30)]))
    told: list[tuple[str, float, float | None]] = []
    first = [block.documents() for block in part.blocks(lambda *args: told.append(args), "measuring")]
    assert told == [("measuring", 1, 1)]
    assert [block.documents() for block in part.blocks()] == first


@pytest.mark.parametrize(("size", "told"), [(1, "1 document"), (9, "9 documents")])
def test_a_text_of_fewer_than_ten_lines_is_refused(size: int, told: str) -> None:
    with pytest.raises(TextError, match=f"^few: has {told}; at least 10 are needed"):
        train_and_heldout(Lines(["x"] * size, "few"))


SHARES = [{"train": 0.8, "validation": 0.1, "test": 0.1}, {"a": "1/3", "b": "2/3"}, {"a": 1}, {"a": 0.98, "b": "0.02"}]


@pytest.mark.parametrize("shares", SHARES)
@given(size=st.integers(1, 9000), block=st.integers(1, 5000))
def test_lines_go_to_parts_in_runs_and_no_part_gets_less_than_its_share(shares, size: int, block: int) -> None:
    smallest = min(map(Fraction, map(str, shares.values())))
    if size * smallest < 1:  # a part may get nothing, which is an error
        with suppress(TextError):
            split(numbers(size, block), shares)
        return
    parts = split(numbers(size, block), shares)
    found = {name: [int(line) for line in lines_of(part)] for name, part in parts.items()}
    assert sorted(number for some in found.values() for number in some) == list(range(size))
    run = 50 if size * smallest >= 50 else 1
    for name, some in found.items():
        assert some == sorted(some)
        assert len({number // run for number in some}) == -(-len(some) // run)  # whole runs, but for the last of all
        assert len(some) >= (size // run * Fraction(str(shares[name])) // 1) * run


def numbers(size: int, block: int) -> Source:
    """The lines 0, 1, ... in blocks of so many."""

    class Numbers:
        sources, record = ("numbers",), {"data": {}}

        def blocks(self, *_: object) -> Iterator[Block]:
            for start in range(0, size, block):
                lines = range(start, min(start + block, size))
                yield Block(byte_array("".join(f"{i}\n" for i in lines).encode()), "numbers", start + 1)

    return Numbers()


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=2), min_size=40, max_size=60, unique=True),
    st.data(),
)
def test_records_go_where_their_content_says_whatever_else_there_is(texts: list[str], data: st.DataObject) -> None:
    shares = {"train": "0.6", "test": "0.4"}
    texts = ["", "a", "\n", *texts]
    parts = split(Records(texts), shares)
    of = {text: name for name, part in parts.items() for text in lines_of(part)}
    assert of.keys() == set(texts)
    for text, name in of.items():
        number = int(hashlib.sha256(text.encode()).hexdigest()[:16], 16)
        assert name == ("train" if number < 0.6 * 2**64 else "test")
    others = data.draw(st.permutations(texts))[:20] * 2
    again = {text: name for name, part in split(Records([*texts, *others]), shares).items() for text in lines_of(part)}
    assert again == of


class Records:
    """Documents that may hold newlines."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.sources, self.record = texts, ("records",), {"data": {}}

    def blocks(self, *_: object) -> Iterator[Block]:
        text = byte_array(b"".join(text.encode() + b"\xff" for text in self.texts))
        yield Block(text, "records", 1, NEVER_IN_UTF8, "row")


def test_too_few_records_are_an_error() -> None:
    with pytest.raises(TextError, match=r"^records: has 1 document; at least 2 are needed .*or more for whole files"):
        split(Records(["a"]), {"a": 0.5, "b": 0.5})
