from __future__ import annotations

import numpy as np
import pytest

from chainrule.text.parallel import central_sentences, shorten

WORDS = ["a", "b", "c", "d", "e", "f", "g", "h"]


def encode(texts: list[str]) -> list[np.ndarray]:
    return [np.array([WORDS.index(word.strip(".")) for word in text.split()], np.int32) for text in texts]


@pytest.mark.parametrize(("how", "expected"), [("end", "a b c"), ("front", "f g h"), ("refuse", "a b c d e f g h")])
def test_one_side_is_cut_off(how: str, expected: str) -> None:
    texts = ["a b", "a b c d e f g h", "a b c"]
    rows, count = shorten(texts, encode(texts), 3, how, encode)
    assert [row.tolist() for row in rows] == [row.tolist() for row in encode(["a b", expected, "a b c"])]
    assert count == (how != "refuse")


def test_the_most_central_sentences_are_kept_in_their_order() -> None:
    """Eleven tokens: a has 4/11, b 3/11, c 2/11, d and e 1/11 each.

    Means: "c d e." 4/33, "a b." 7/22, "a b c." 9/33, "a a b." is 11/33: the best. Then p(a) = 16/121, p(b) = 9/121:
    "a b." has 25/242 = 0.103, "a b c." 47/363 = 0.129, "c d e." 0.121; so "a b c." comes next, and no room is left.
    """
    text = "c d e. a b. a b c. a a b."
    assert central_sentences(text, 6, encode) == "a b c. a a b."
    assert central_sentences(text, 3, encode) == "a a b."
    assert central_sentences(text, 2, encode) == "a b."
    rows, count = shorten([text], encode([text]), 6, "sentences", encode)
    assert rows[0].tolist() == encode(["a b c a a b"])[0].tolist()
    assert count == 1


def test_a_sentence_that_does_not_fit_is_cut() -> None:
    text = "a b c d e f g h."
    assert central_sentences(text, 3, encode) == text
    assert shorten([text], encode([text]), 3, "sentences", encode).rows[0].tolist() == [0, 1, 2]
