"""Witten-Bell smoothing against its formula, spelled out with dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import BEGIN, END

from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.estimation.backoff_and_additive import witten_bell
from chainrule.ngram.estimation.estimates import table_of
from chainrule.ngram.models.table_models import NGramModel

DOCUMENTS = [[3, 4, 3], [3], [4, 4, 4, 3], [], [3, 4, 3, 4, 3, 4]]
VOCABULARY = range(6)  # 0 and 5 are never seen


def formula(word: int, context: tuple[int, ...]) -> float:
    """(c(hw) + T(h) P(w|h')) / (c(h) + T(h)), from the documents."""
    followers = []
    for document in DOCUMENTS:
        padded = [BEGIN, *document, END]
        positions = range(max(1, len(context)), len(padded))
        followers += [padded[i] for i in positions if tuple(padded[i - len(context) : i]) == context]
    lower = 1 / (len(VOCABULARY) - 1)
    if context:
        lower = formula(word, context[1:])
    if word == BEGIN:
        return 0
    kinds = len(set(followers))
    return (followers.count(word) + kinds * lower) / (len(followers) + kinds) if followers else lower


@pytest.fixture(scope="module")
def model() -> NGramModel:
    stream = np.array([token for document in DOCUMENTS for token in [*document, END]], np.int32)
    counts = count_ngrams(stream, len(VOCABULARY), 3)
    return NGramModel(table_of(counts, witten_bell(counts)))


@pytest.mark.parametrize("prefix", [[], [3], [4], [3, 4], [4, 4], [4, 3, 3], [5], [0, 3], [3, 5]])
def test_every_probability_is_the_formulas(model: NGramModel, prefix: list[int]) -> None:
    context = (BEGIN, *prefix)[-2:]
    expected = [formula(word, context) for word in VOCABULARY]
    assert sum(expected) == pytest.approx(1)
    actual = model.next_log_probs(model.start([np.array(prefix, np.int32)]))[0]
    np.testing.assert_allclose(np.exp(actual), expected, rtol=1e-5)


def test_a_unigram_by_hand(model: NGramModel) -> None:
    # Predicted: 3 seven times, 4 seven times, </s> five times; three kinds of five possible words.
    assert np.exp(model.table.log_probs[1 + 3]) == pytest.approx((7 + 3 * 1 / 5) / (19 + 3))
    assert np.exp(model.table.log_probs[1 + 5]) == pytest.approx(3 / 5 / (19 + 3))
