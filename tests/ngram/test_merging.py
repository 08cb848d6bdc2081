"""A merged table against the sum over its components, n-gram by n-gram."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import BEGIN, END, grams_of, katz, random_backoff_grams, random_documents, stream_of, table_of

from chainrule.ngram.config import NGramConfig
from chainrule.ngram.editing.merging import merge_tables, renumber
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.training import train_ngram

V = 8


def trained(order: int, seed: int, **settings):
    return train_ngram(stream_of(random_documents(seed, V, 40, 9)), V, NGramConfig(order=order, **settings))[0].table


MIXES = {
    "two": lambda: ([trained(3, 1), trained(3, 2)], [0.3, 0.7]),
    "orders that differ": lambda: ([trained(4, 1), trained(2, 2)], [0.5, 0.5]),
    "three, one pruned": lambda: ([trained(3, 1), trained(4, 2, prune=(0, 1)), trained(1, 3)], [0.2, 0.5, 0.3]),
    "missing suffixes": lambda: ([table_of(random_backoff_grams(5, V, 4), 4), trained(3, 2)], [0.6, 0.4]),
    "a weight of nothing": lambda: ([trained(3, 1), trained(3, 2)], [1.0, 0.0]),
}


@pytest.mark.parametrize("name", MIXES)
def test_what_is_stored_is_the_interpolation_and_all_sums_to_one(name: str) -> None:
    tables, weights = MIXES[name]()
    table = merge_tables(tables, weights)
    actual, parts = grams_of(table), [grams_of(part) for part in tables]
    assert set().union(*parts) <= actual.keys()
    for gram, (log_prob, _) in actual.items():
        probs = [math.exp(katz(part, gram[:-1], gram[-1])[0]) for part in parts]
        expected = sum(weight * prob for weight, prob in zip(weights, probs, strict=True))
        assert math.exp(log_prob) == pytest.approx(expected, rel=1e-5, abs=1e-12), gram
    words = [word for word in range(V) if word not in (BEGIN, END)]
    contexts = [[], *([a] for a in words), *([a, b] for a in words for b in words)]
    model = NGramModel(table)
    rows = model.next_log_probs(model.start([np.array(context, np.int32) for context in contexts]))
    np.testing.assert_allclose(np.exp(rows, dtype=np.float64).sum(axis=1), 1, rtol=0, atol=2e-6)


def test_a_table_merged_with_itself_is_itself() -> None:
    table = trained(4, 3)
    same = merge_tables([table, table], [0.4, 0.6])
    for gram, values in grams_of(table).items():
        assert grams_of(same)[gram] == pytest.approx(values, abs=1e-5)


def test_other_numbers_for_words_change_no_score() -> None:
    table = trained(4, 3)
    numbers = np.array([0, 1, 2, 9, 7, 3, 8, 4], np.int32)
    other = renumber(table, numbers, 11)
    stream = stream_of(random_documents(8, V, 20, 9))
    np.testing.assert_array_equal(
        NGramModel(other).score_stream(numbers[stream]), NGramModel(table).score_stream(stream)
    )
    assert NGramModel(other).score_stream(np.array([5, 10], np.int32)).tolist() == [-np.inf, -np.inf]
