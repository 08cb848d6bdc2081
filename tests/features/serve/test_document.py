"""Documents: positions and changes as the protocol defines them, on texts made to break them."""

from __future__ import annotations

import random
import re

import pytest

from chainrule.features.serve.editors.document import Document, Encoding, Paragraph, Position

PIECES = ["a", "é", "𝒳", "😀", " ", "\n", "\r", "\r\n", "\f", "\u2028", "word "]
UNITS = {"utf-8": lambda text: len(text.encode()), "utf-16": lambda text: len(text.encode("utf-16-le")) // 2}


def lines_of(text: str) -> list[str]:
    """The lines of a text without their ends. Oracle: the protocol's three line ends, and no others."""
    return re.split("\r\n|\r|\n", text)


def offset_of(text: str, position: Position, encoding: Encoding) -> int:
    """The offset of a position, by counting units from the beginning of the text."""
    starts = [0, *(match.end() for match in re.finditer("\r\n|\r|\n", text))]
    if position.line >= len(starts):
        return len(text)
    offset, units = starts[position.line], 0
    for character in lines_of(text)[position.line]:
        units += UNITS[encoding](character)
        if units > position.character:
            break
        offset += 1
    return offset


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_random_changes_give_the_text_that_naive_ones_give(encoding: Encoding) -> None:
    chance = random.Random(1)
    text = "".join(chance.choices(PIECES, k=30))
    document = Document(text, encoding=encoding)
    for _ in range(300):
        first = Position(chance.randrange(8), chance.randrange(12))
        second = Position(chance.randrange(8), chance.randrange(12))
        new = "".join(chance.choices(PIECES, k=chance.randrange(4)))
        start, end = offset_of(text, first, encoding), offset_of(text, second, encoding)
        text = text[:start] + new + text[max(start, end) :]
        document.replace(first, second, new)
        assert "".join(document.lines) == text
        assert [line.rstrip("\r\n") for line in document.lines] == lines_of(text)
        if len(text) > 60:
            document, text = Document("", encoding=encoding), ""


@pytest.mark.parametrize(("encoding", "units"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
def test_a_character_outside_the_basic_plane_has_the_units_of_its_encoding(encoding: Encoding, units: int) -> None:
    document = Document("x\n😀ab", encoding=encoding)
    assert document.locate(Position(1, units + 1)) == (1, 2)
    assert document.position(1, 2) == Position(1, units + 1)
    if units > 1:
        assert document.locate(Position(1, 1)) == (1, 0)  # inside the character


@pytest.mark.parametrize(
    ("position", "place"),
    [
        (Position(0, 10**9), (0, 2)),
        (Position(10**9, 0), (1, 1)),
        (Position(-1, 5), (0, 0)),
        (Position(1, -7), (1, 0)),
    ],
)
def test_positions_outside_are_the_nearest_inside(position: Position, place: tuple[int, int]) -> None:
    assert Document("ab\nc").locate(position) == place


def test_half_a_character_becomes_a_sign_that_can_be_written() -> None:
    document = Document("a\ud83dz")
    document.replace(Position(0, 2), Position(0, 2), "\ude00")
    assert document.lines == ["a\ufffd\ufffdz"]
    assert document.locate(Position(0, 3)) == (0, 3)


def test_a_paragraph_is_read_as_one_line_up_to_the_position() -> None:
    document = Document("before\n\n  one two\r\nthree\nfour fi\nve")
    assert document.text_before(Position(4, 7), 100, is_joined=True) == "one two three four fi"
    assert document.text_before(Position(5, 0), 100, is_joined=True) == "one two three four fi "
    assert document.text_before(Position(2, 5), 100, is_joined=True) == "one"
    assert document.text_before(Position(1, 0), 100, is_joined=True) == "before "
    assert document.text_before(Position(3, 5), 100, is_joined=False) == "before\n\n  one two\r\nthree"
    assert document.begun_word(Position(4, 7)) == "fi"


def test_of_a_long_text_the_end_is_read_from_a_word_that_stays_while_one_types() -> None:
    line = "".join(f"w{i} " for i in range(20_000))
    document = Document("early\n" + line)
    end = Position(1, len(line))
    text = document.text_before(end, 4096, is_joined=True)
    assert line.endswith(text)
    assert 3000 < len(text) <= 4096
    assert text[0] == "w"
    document.replace(end, end, "more")
    assert document.text_before(Position(1, len(line) + 4), 4096, is_joined=True) == text + "more"


def test_paragraphs_lie_around_the_last_change_and_within_bounds() -> None:
    document = Document("".join(f"line {i:03}\n" + "\n" * (i % 4 == 3) for i in range(400)))  # 9 characters and the end
    assert document.paragraphs(100)[0] == Paragraph("line 000\nline 001\nline 002\nline 003\n", 0)
    document.replace(Position(252, 0), Position(252, 0), "x")
    near = document.paragraphs(100)
    assert sum(len(one.text) for one in near) <= 100
    assert any("x" in one.text for one in near)
    for one in near:
        assert "".join(document.lines[one.first :]).startswith(one.text)
    assert Document("a" * 200).paragraphs(100) == []
