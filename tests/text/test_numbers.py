"""Numbers in text: as Python reads them, without underscores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from chainrule.errors import TextError
from chainrule.features.correct.correct import read_lexicon
from chainrule.features.correct.train_channel import read_error_pairs
from chainrule.features.reading.word_frequencies import WordFrequencies
from chainrule.features.rescore.lists.nbest import Line, finite_score
from chainrule.features.rescore.lists.nbest_formats import looks_like_srilm
from chainrule.features.vectors.learning.cooccurrences import read_cooccurrence_file
from chainrule.text.numbers import is_number, number_of, whole_number_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("text", "number"), [("1.5", 1.5), (b"-2e3", -2000.0), (" 7 ", 7.0), ("inf", float("inf"))])
def test_numbers_are_as_python_reads_them(text: str | bytes, number: float) -> None:
    assert number_of(text) == number
    assert is_number(text)


@pytest.mark.parametrize("text", ["1_0", b"1_0", "1_000.5", "x", "", b"\xff"])
def test_underscores_are_no_part_of_a_number(text: str | bytes) -> None:
    assert not is_number(text)
    for read in (number_of, whole_number_of):
        with pytest.raises(ValueError, match=r"underscore|could not|invalid"):
            read(text)


def test_whole_numbers() -> None:
    assert whole_number_of("-12") == whole_number_of(b"-12") == -12


@pytest.mark.parametrize(
    ("read", "line"),
    [
        (read_lexicon, "dog 1_0"),
        (WordFrequencies, "dog\t1_0"),
        (read_error_pairs, "teh\tthe\t1_0"),
        (read_cooccurrence_file, "dog\tcat\t1_0"),
    ],
)
def test_files_of_counts_are_refused(read, line: str, tmp_path: Path) -> None:
    path = tmp_path / "counts.txt"
    path.write_text(f"{line.replace('1_0', '2')}\n{line}\n")
    with pytest.raises(TextError, match=r"line 2"):
        read(path)


def test_scores_of_lists_are_refused() -> None:
    line = Line("x", "a.nbest", 3)
    assert finite_score("1.5", line, "acoustic") == finite_score(1.5, line, "acoustic") == 1.5
    assert looks_like_srilm("-1 -2 2 the dog")
    assert not looks_like_srilm("-1_0 -2 2 the dog")
    with pytest.raises(TextError, match=r"a\.nbest, line 3: acoustic is '1_0'; expected"):
        finite_score("1_0", line, "acoustic")
