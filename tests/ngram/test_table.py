from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import BEGIN, NaiveKneserNey, grams_of, random_backoff_grams, random_documents, stream_of, widened
from oracles import table_of as table_from

from chainrule.errors import ModelFormatError
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.estimation.discounting import discounting
from chainrule.ngram.estimation.estimates import table_of
from chainrule.ngram.trie.table import ROOT, Table

DOCUMENTS = random_documents(1, 20, 80, 9)


def table_with(prune: tuple[int, ...], order: int = 4) -> Table:
    config = NGramConfig(order=order, prune=prune)
    counts = count_ngrams(stream_of(DOCUMENTS), 20, order)
    return table_of(counts, discounting(counts, config))


@pytest.mark.parametrize("prune", [(0,), (0, 0, 1), (0, 1, 1, 2), (0, 0, 0, 3), (0, 0, 10**9), (0, 10**9)])
def test_a_packed_table_holds_what_was_kept_with_contexts_and_their_backoffs(prune: tuple[int, ...]) -> None:
    table = table_with(prune)
    oracle = NaiveKneserNey(DOCUMENTS, 20, 4, prune)
    actual, expected = grams_of(table), oracle.table()
    assert list(actual) == sorted(expected, key=lambda gram: (len(gram), gram))
    for gram, (log_prob, log_backoff) in actual.items():
        assert math.exp(log_prob) == pytest.approx(expected[gram][0], rel=1e-5)
        assert math.exp(log_backoff) == pytest.approx(expected[gram][1], rel=1e-5)


@pytest.mark.parametrize("prune", [(0,), (0, 0, 1), (0, 1, 1, 2)])
def test_suffixes_are_the_n_grams_without_their_first_words(prune: tuple[int, ...]) -> None:
    table = table_with(prune)
    grams = [(), *grams_of(table)]
    assert [grams[suffix] for suffix in table.suffixes[1:]] == [gram[1:] for gram in grams[1:]]


def test_suffixes_of_another_number_are_refused() -> None:
    table = table_with((0,))
    with pytest.raises(ModelFormatError, match="'suffixes'"):
        Table.from_arrays(table.level_sizes, {**table.arrays(), "suffixes": table.suffixes[:-1]})


def test_the_slice_of_a_level_holds_its_n_grams() -> None:
    table = table_with((0, 1))
    grams = [(), *grams_of(table)]
    assert table.order == 4
    assert table.vocabulary_size == 20
    assert table.level(0) == slice(ROOT, ROOT + 1)
    for order in range(1, 5):
        assert {len(gram) for gram in grams[table.level(order)]} == {order}
        assert len(grams[table.level(order)]) == table.level_sizes[order - 1]
    assert table.level(4).stop == len(table.words)


def test_begin_alone_has_no_probability_and_everything_else_has() -> None:
    for gram, (log_prob, _) in grams_of(table_with((0,))).items():
        assert (log_prob == -math.inf) == (gram == (BEGIN,))


def test_arrays_make_the_same_table_again() -> None:
    table = table_with((0, 0, 1))
    again = Table.from_arrays(list(table.level_sizes), table.arrays())
    assert again.level_sizes == table.level_sizes
    assert grams_of(again) == grams_of(table)


@pytest.mark.parametrize("name", ["nodes", "contexts", "slots", "suffixes"])
def test_a_missing_array_is_named(name: str) -> None:
    table = table_from(random_backoff_grams(1, 6, 3), 3)
    arrays = table.arrays()
    del arrays[name]
    with pytest.raises(ModelFormatError, match=f"lacks the array '{name}'"):
        Table.from_arrays(table.level_sizes, arrays)


@pytest.mark.parametrize("name", ["nodes", "contexts"])
def test_an_array_of_wrong_length_shape_or_type_is_named_with_what_was_expected(name: str) -> None:
    table = table_from(random_backoff_grams(1, 6, 3), 3)
    array = table.arrays()[name]
    for wrong in (array[:-1], np.append(array, array[-1:], 0), array.astype(np.float64), array[:, :1], array[:, 0]):
        with pytest.raises(ModelFormatError, match=rf"'{name}' is .*int32.*\[{len(array)}, 2\]"):
            Table.from_arrays(table.level_sizes, {**table.arrays(), name: wrong})


def test_begin_may_take_64_bits() -> None:
    table = table_from(random_backoff_grams(1, 6, 3), 3)
    wide = Table.from_arrays(table.level_sizes, widened(table).arrays())
    assert wide.begin.dtype == np.int64
    assert grams_of(wide) == grams_of(table)


def test_a_record_keeps_what_is_read_together_side_by_side() -> None:
    """The layout on disk: two columns of 32 bits a node (word, log-probability), and a context (begin, back-off)."""
    table = table_from(random_backoff_grams(1, 6, 3), 3)
    arrays = table.arrays()
    assert np.array_equal(arrays["nodes"][:, 0], table.words)
    assert np.array_equal(arrays["nodes"][:, 1].copy().view(np.float32), table.log_probs)
    assert np.array_equal(arrays["contexts"][:, 0], table.begin)
    assert np.array_equal(arrays["contexts"][:-1, 1].copy().view(np.float32), table.log_backoffs)
