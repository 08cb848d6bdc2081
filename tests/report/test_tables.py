"""Tables, as text and as Markdown."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.base.tables import markdown_code, markdown_table, printable, text_table

# Markdown as GitHub reads it: a bar that no backslash hides ends a cell, and a backslash hides any punctuation.
BAR = re.compile(r"(?<!\\)\|")
words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


def columns(text: str) -> int:
    """How many columns of a terminal a text without combining characters takes."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def test_the_first_column_is_aligned_to_the_left_and_the_others_to_the_right() -> None:
    assert text_table(["model", "bits"], [["a", "1.5"], ["unigram", "10.25"]]) == (
        "model     bits\n"
        "a          1.5\n"
        "unigram  10.25"
    )  # fmt: skip


def test_a_table_without_rows_is_its_header() -> None:
    assert text_table(["a", "b"], []) == "a  b"
    assert markdown_table(["a", "b"], []) == "| a | b |\n|---|---:|\n"


def test_no_line_ends_in_spaces() -> None:
    assert text_table(["a", "b", ""], [["1", "2", ""], ["1", "2", "note"]]).splitlines()[:2] == ["a  b", "1  2"]


def test_wide_characters_count_as_two_columns() -> None:
    lines = text_table(["token", "p"], [["日本語", "0.1"], ["ka", "0.25"], ["￭", "1"]]).splitlines()
    assert [columns(line) for line in lines] == [12, 12, 12, 12]
    assert lines[1] == "日本語   0.1"


def test_combining_characters_count_as_none() -> None:
    plain, combined = text_table(["", "p"], [["e", "1"], ["e\u0301", "1"]]).splitlines()[1:]
    assert combined == plain.replace("e", "e\u0301")


@given(st.lists(st.lists(words, min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_table_of_any_cells_has_a_line_a_row_and_nothing_that_a_terminal_obeys(rows: list[list[str]]) -> None:
    lines = text_table(["a", "b", "c"], rows).split("\n")
    assert len(lines) == len(rows) + 1
    assert not any(is_obeyed(c) for line in lines for c in line)


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert printable("a\x1b[31mb\nc\td\u202e\udcff日 ￭") == "a\\x1b[31mb\\nc\\td\\u202e\\udcff日 ￭"


def is_obeyed(c: str) -> bool:
    """By Unicode's own classes: controls, line and paragraph ends, surrogates, and what turns the direction."""
    turns = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs") or unicodedata.bidirectional(c) in turns


def test_a_character_is_an_escape_where_a_terminal_obeys_it_and_only_there() -> None:
    deprecated = "".join(map(chr, range(0x206A, 0x2070)))  # Unicode 2's switches of shaping, escaped, too
    for c in filter(lambda c: c not in deprecated, map(chr, range(0x20000))):
        assert (printable(c) != c) == is_obeyed(c), hex(ord(c))
    for text in ("می‌خواهم", "👩‍👩‍👧", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "« mot »\u202f!", "עברית\u200f!", "日本\u3000語", "\U0001fadf"):
        assert printable(text) == text  # Persian, emoji of several parts, spaces; an emoji of Unicode 16


def test_a_markdown_table_aligns_numbers_to_the_right() -> None:
    assert (
        markdown_table(["model", "bits"], [["unigram", "1.5"]]) == "| model | bits |\n|---|---:|\n| unigram | 1.5 |\n"
    )


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [("a|b", "a\\|b"), ("<unk>", "\\<unk\\>"), ("*", "\\*"), ("`", "\\`"), ("\\", "\\\\"), ("a\nb", "a\\\\nb")],
)
def test_markup_in_a_cell_is_escaped(cell: str, escaped: str) -> None:
    assert markdown_table(["x"], [[cell]]).splitlines()[2] == f"| {escaped} |"


@given(st.lists(st.lists(words, min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_cells_make_a_markdown_table_of_as_many_rows_and_columns(rows: list[list[str]]) -> None:
    lines = markdown_table(["a", "b"], rows).split("\n")
    assert lines.pop() == ""
    assert len(lines) == len(rows) + 2
    for line, row in zip(lines[2:], rows, strict=True):
        cells = re.sub(r"\\(.)", lambda match: f"\\{ord(match[1])};", line).split("|")[1:-1]
        read = [re.sub(r"\\(\d+);", lambda match: chr(int(match[1])), cell[1:-1]) for cell in cells]
        assert read == [printable(cell) for cell in row]


@pytest.mark.parametrize(
    ("text", "span"),
    [("a", "`a`"), ("a`b", "``a`b``"), ("`", "`` ` ``"), ("a``", "``` a`` ```"), ("<s>|x", "`<s>|x`"), ("\n", "`\\n`")],
)
def test_a_code_span_shows_any_text(text: str, span: str) -> None:
    assert markdown_code(text) == span
