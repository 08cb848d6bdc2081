"""The printed line of a document against Python's own formatting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chainrule.evaluation.score_lines import sentence_lines
from chainrule.evaluation.token_scores import SentenceScores
from chainrule.text.corpus.block import NEVER_IN_UTF8, Block, byte_array

numbers = st.floats(-1e9, 1e9) | st.sampled_from([0.0, -0.0, -1e-7, -4e-7, -0.999_999_9, -1.000_000_1, -123.456])
texts = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(numbers, st.integers(1, 10**12), st.integers(0, 10**6), texts), min_size=1, max_size=20))
def test_a_line_is_as_python_would_print_it(rows: list[tuple[float, int, int, str]]) -> None:
    log_probs, tokens, unknown, documents = map(list, zip(*rows, strict=True))
    block = Block(byte_array("".join(f"{document}\n" for document in documents).encode()), "x", 1)
    scores = SentenceScores(np.array(log_probs), np.array(tokens), np.array(unknown))
    lines = sentence_lines(scores, block).tobytes().decode().split("\n")
    assert lines.pop() == ""
    for line, (log_prob, size, oov, text) in zip(lines, rows, strict=True):
        number, *rest = line.split("\t", 3)
        assert rest == [str(size), str(oov), text]
        assert len(number.split(".")[1]) == 6
        assert float(number) == pytest.approx(log_prob, abs=5.1e-7, rel=1e-14)


@pytest.mark.parametrize(
    ("log_prob", "expected"), [(-np.inf, "-inf"), (-2.5e-7, "-0.000000"), (-1e300, "-9000000000000.000000")]
)
def test_numbers_at_the_edges(log_prob: float, expected: str) -> None:
    scores = SentenceScores(np.array([log_prob]), np.array([1]), np.array([0]))
    assert sentence_lines(scores, Block(byte_array(b"a\n"), "x", 1)).tobytes() == f"{expected}\t1\t0\ta\n".encode()


def test_a_document_with_line_ends_stays_on_its_line() -> None:
    block = Block(byte_array(b"a\nb\r\nc\xffd\xff"), "x", 1, NEVER_IN_UTF8)
    scores = SentenceScores(np.array([-1.0, -2.0]), np.array([4, 2]), np.array([1, 0]))
    assert sentence_lines(scores, block).tobytes() == b"-1.000000\t4\t1\ta b  c\n-2.000000\t2\t0\td\n"
