"""Entropy pruning against the formulas of the paper, n-gram by n-gram and word by word."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import (
    BEGIN,
    END,
    UNKNOWN,
    Gram,
    Grams,
    grams_of,
    katz,
    naive_counts,
    random_backoff_grams,
    random_documents,
    stream_of,
    table_of,
    wild_table,
)

from chainrule.base.progress import silent
from chainrule.errors import ModelFormatError, SettingError
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.editing.pruning import (
    by_chain_rule,
    by_discounts,
    by_frequency,
    occurrences,
    score_ngrams,
    to_text,
    to_words,
)
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.training import train_ngram
from chainrule.ngram.trie.assembly import with_suffixes

if TYPE_CHECKING:
    from chainrule.ngram.trie.table import Table

V = 8
WORDS = [word for word in range(V) if word != BEGIN]
DOCUMENTS = random_documents(4, V, 60, 9)


def trained(order: int = 3, seed: int = 4, **settings) -> Table:
    return train_ngram(stream_of(random_documents(seed, V, 60, 9)), V, NGramConfig(order=order, **settings))[0].table


TABLES = {
    "bigram": lambda: trained(2),
    "trigram": lambda: trained(3),
    "4-gram": lambda: trained(4),
    "count-pruned 4-gram": lambda: trained(4, prune=(0, 0, 1)),
    "back-off model with missing suffixes": lambda: table_of(random_backoff_grams(5, V, 4), 4),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Table:
    return TABLES[request.param]()


def distribution(grams: Grams, context: Gram) -> list[float]:
    return [0.0 if word == BEGIN else math.exp(katz(grams, context, word)[0]) for word in range(V)]


def chain_rule(grams: Grams, context: Gram) -> float:
    """log P(context), <s> as likely as </s>."""
    total = 0.0
    for i, word in enumerate(context):
        total += katz(grams, context[:i], END if (i, word) == (0, BEGIN) else word)[0]
    return total


def naive_entropy(grams: Grams, gram: Gram) -> float:
    """D(p || p') by the definition: both distributions after h, the one without hw with its back-off weight anew."""
    context, word = gram[:-1], gram[-1]
    before = distribution(grams, context)
    followers = {g[-1] for g in grams if g[:-1] == context} - {word}
    lower = distribution(grams, context[1:])
    weight = (1 - sum(before[w] for w in followers)) / (1 - sum(lower[w] for w in followers))
    after = [before[w] if w in followers else weight * lower[w] for w in range(V)]
    divergence = sum(p * (math.log(p) - math.log(q)) for p, q in zip(before, after, strict=True) if p > 0)
    return math.exp(chain_rule(grams, context)) * divergence


def naive_pruned(grams: Grams, order: int, kept: set[Gram]) -> Grams:
    """What is kept, with the back-off weights that make every context's distribution sum to one.

    NaN where nearly all words have been seen, so that rounding decides.
    """
    pruned: Grams = {g: values for g, values in grams.items() if g in kept}
    for n in range(1, order):
        for context in [g for g in pruned if len(g) == n]:
            followers = [g[-1] for g in pruned if g[:-1] == context]
            left = 1 - sum(math.exp(pruned[*context, w][0]) for w in followers)
            below = 1 - sum(math.exp(katz(pruned, context[1:], w)[0]) for w in followers)
            decided = left > 1e-3 and below > 1e-3
            log_backoff = 0.0 if not followers else math.log(left / below) if decided else math.nan
            pruned[context] = pruned[context][0], log_backoff
    return pruned


def all_contexts(order: int) -> list[np.ndarray]:
    contexts: list[list[int]] = [[]]
    for _ in range(order - 1):
        contexts += [[*context, word] for context in contexts for word in (UNKNOWN, 3, 4, 5, 6, 7)]
    return [np.array(context, np.int32) for context in contexts]


def assert_sums_to_one(table: Table) -> None:
    model = NGramModel(table)
    rows = model.next_log_probs(model.start(all_contexts(table.order)))
    np.testing.assert_allclose(np.exp(rows, dtype=np.float64).sum(axis=1), 1, rtol=0, atol=2e-6)


def test_scores_are_the_relative_entropies_of_the_definition(table: Table) -> None:
    actual = score_ngrams(table, by_chain_rule)
    grams = grams_of(actual.table)
    expected = {gram: naive_entropy(grams, gram) for gram in grams if len(gram) > 1}
    for gram, score in zip(grams, actual.scores[1:].tolist(), strict=True):
        best = max((value for other, value in expected.items() if other[: len(gram)] == gram), default=0.0)
        assert score == (math.inf if len(gram) == 1 else pytest.approx(best, rel=1e-3, abs=3e-8))


@pytest.mark.parametrize("threshold", [0.0, 1e-4, 1e-3, 1e-2, 0.5])
def test_what_is_kept_has_its_probability_and_all_sums_to_one(table: Table, threshold: float) -> None:
    actual = score_ngrams(table, by_chain_rule)
    pruned = actual.above(threshold)
    before, after = grams_of(actual.table), grams_of(pruned)
    assert after.keys() <= before.keys()
    assert {gram[:-1] for gram in after if len(gram) > 1} <= after.keys()
    assert sum(len(gram) == 1 for gram in after) == V
    assert all(values[0] == before[gram][0] for gram, values in after.items())
    expected = naive_pruned(before, table.order, set(after))
    for gram, (_, log_backoff) in after.items():
        if len(gram) < pruned.order and not math.isnan(expected[gram][1]):
            assert log_backoff == pytest.approx(expected[gram][1], abs=3e-4), gram
    assert_sums_to_one(pruned)


def test_a_threshold_of_zero_changes_no_bit(table: Table) -> None:
    actual = score_ngrams(table, by_chain_rule)
    for name, array in actual.above(0).arrays().items():
        np.testing.assert_array_equal(array, actual.table.arrays()[name])


@pytest.mark.parametrize("threshold", [0, 1e-4, 1e-2])
def test_suffixes_that_all_stay_are_known_to_the_pruned_table(threshold: float) -> None:
    pruned = score_ngrams(trained(4), by_chain_rule).above(threshold)
    spelled = [(), *grams_of(pruned)]
    is_whole = all(gram[1:] in set(spelled) for gram in spelled)
    assert bool(pruned.suffixes.size) == is_whole
    assert all(spelled[suffix] == gram[1:] for suffix, gram in zip(pruned.suffixes, spelled, strict=False))


def test_a_threshold_above_everything_leaves_the_unigrams() -> None:
    pruned = score_ngrams(trained(4), by_chain_rule).above(1e9)
    assert pruned.level_sizes == (V,)
    assert_sums_to_one(pruned)


@given(st.integers(0, 40), st.integers(1, 4), st.floats(0, 1))
def test_a_number_of_n_grams_is_met_and_thresholds_agree_with_it(seed: int, order: int, share: float) -> None:
    actual = score_ngrams(trained(order, seed), by_chain_rule)
    available = actual.scores.size - 1
    wanted = V + round(share * (available - V))
    pruned = actual.best(wanted)
    assert sum(pruned.level_sizes) == wanted
    grams = grams_of(pruned)
    assert {gram[:-1] for gram in grams if len(gram) > 1} <= grams.keys()
    lowest = np.sort(actual.scores[1:])[::-1][wanted - 1]
    if np.isfinite(lowest) and np.count_nonzero(actual.scores[1:] >= lowest) == wanted:
        by_threshold = actual.above(float(np.expm1(np.float64(lowest)) * (1 - 1e-7)))
        assert grams_of(by_threshold).keys() == grams.keys()
    assert_sums_to_one(pruned)


@pytest.mark.parametrize("ngrams", [0, V - 1, 10**6])
def test_an_impossible_number_of_n_grams_is_reported(ngrams: int) -> None:
    with pytest.raises(
        SettingError, match=rf"cannot prune to {ngrams:,} n-grams: the model has .* unigrams are never pruned"
    ):
        score_ngrams(trained(3), by_chain_rule).best(ngrams)


@pytest.mark.parametrize("threshold", [-1e-9, math.nan, math.inf])
def test_thresholds_that_are_none_are_reported(threshold: float) -> None:
    with pytest.raises(SettingError, match="expected a number of at least 0"):
        score_ngrams(trained(3), by_chain_rule).above(threshold)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_table_is_reported_and_crashes_nothing(seed: int) -> None:
    with pytest.raises(ModelFormatError, match="out of order"):
        score_ngrams(wild_table(seed), by_chain_rule)


def test_missing_suffixes_are_put_in_and_no_score_changes() -> None:
    grams = random_backoff_grams(7, V, 4)
    table = table_of(grams, 4)
    closed, suffixes = with_suffixes(table)
    spelled = [(), *grams_of(closed)]
    assert len(spelled) > len(grams) + 1
    assert all(spelled[suffixes[node]] == gram[1:] for node, gram in enumerate(spelled))
    before, after = (NGramModel(model).score_stream(stream_of(DOCUMENTS)) for model in (table, closed))
    np.testing.assert_allclose(after, before, atol=1e-5)


def test_counts_of_a_text_are_those_of_a_naive_count() -> None:
    table = trained(3)
    other = random_documents(9, V, 30, 7)
    counts = sum(naive_counts(other, 3)[1:], naive_counts(other, 3)[0])
    counts[(BEGIN,)] = len(other)
    actual = occurrences(table, stream_of(other), 3)
    for gram, count in zip(grams_of(table), actual[1:].tolist(), strict=True):
        assert count == counts[gram], gram


def test_histories_are_relative_frequencies_and_the_chain_rule_where_there_are_none() -> None:
    table = trained(3)
    grams = list(grams_of(table))
    other = [[3, 3, 4], [5]]
    actual = by_frequency(table, stream_of(other))[1:].tolist()
    counts = {(BEGIN,): 2, (3,): 2, (4,): 1, (5,): 1, (END,): 2, (3, 3): 1, (3, 4): 1, (4, END): 1, (5, END): 1}
    counts |= {(BEGIN, 3): 1, (BEGIN, 5): 1}
    expected: dict[Gram, float] = {(): 0.0}
    for gram, log_prob in zip(grams, actual, strict=False):
        beginning = expected[gram[:-1]] + grams_of(table)[gram][0]
        expected[gram] = math.log(counts[gram] / 6) if gram in counts else beginning
        assert log_prob == pytest.approx(expected[gram], abs=1e-5), gram


def test_counts_are_recovered_from_what_the_discounts_left(encoded) -> None:
    """A Kneser-Ney model's contexts are as likely as they are frequent, and not as its lower orders say."""
    table = train_ngram(encoded.train, encoded.tokenizer.vocabulary_size, NGramConfig(order=4))[0].table
    true = by_frequency(table, encoded.train)
    table, suffixes = with_suffixes(table)
    is_context = np.flatnonzero(np.diff(table.begin) > 0)[1:]
    weights = np.exp(true[is_context].astype(np.float64))
    deviations = {}
    for histories in (by_discounts, by_chain_rule):
        differences = (histories(table, suffixes) - true)[is_context]
        mean = np.average(differences, weights=weights)
        deviations[histories] = math.sqrt(np.average((differences - mean) ** 2, weights=weights))
    assert deviations[by_discounts] < 0.25
    assert deviations[by_chain_rule] > 0.6


def test_a_text_gets_the_same_scores_from_what_it_can_need() -> None:
    table = trained(4)
    other = random_documents(11, V, 5, 6)
    small = to_text(table, stream_of(other))
    assert sum(small.level_sizes) < sum(table.level_sizes)
    actual, lengths = NGramModel(small).score_stream_with_lengths(stream_of(other))
    expected, expected_lengths = NGramModel(table).score_stream_with_lengths(stream_of(other))
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(lengths, expected_lengths)
    needed = {gram for counts in naive_counts(other, 4) for gram in counts}
    assert {gram for gram in grams_of(small) if len(gram) > 1} == {
        gram for gram in grams_of(table) if len(gram) > 1 and gram in needed
    }


@pytest.mark.parametrize("gone", [{7}, {3}, {3, 5, 6}, {3, 4, 5, 6, 7}])
def test_the_unknown_word_gets_what_the_words_had_that_go(table: Table, gone: set[int]) -> None:
    staying = np.array([word not in gone for word in range(V)])
    small = to_words(table, staying, silent)
    words = np.flatnonzero(staying)
    assert small.vocabulary_size == words.size
    assert_sums_to_one_over(small)
    before, after = grams_of(table), grams_of(small)
    for length in range(table.order):
        for context in [g for g in before if len(g) == length and staying[list(g)].all()] or [()]:
            here = tuple(int(np.searchsorted(words, word)) for word in context)
            row = distribution(before, context)
            for new, old in enumerate(words.tolist()):
                if old != BEGIN:
                    expected = row[old] + (sum(row[word] for word in gone) if old == UNKNOWN else 0.0)
                    assert math.exp(katz(after, here, new)[0]) == pytest.approx(expected, abs=1e-5)


def assert_sums_to_one_over(table: Table) -> None:
    model = NGramModel(table)
    words = [word for word in range(table.vocabulary_size) if word not in (BEGIN, END)]
    contexts = [np.array(c, np.int32) for c in [[], *([a] for a in words), *([a, b] for a in words for b in words)]]
    rows = model.next_log_probs(model.start(contexts))
    np.testing.assert_allclose(np.exp(rows, dtype=np.float64).sum(axis=1), 1, rtol=0, atol=1e-5)


def test_all_words_staying_is_the_same_table() -> None:
    table = trained(4)
    same = to_words(table, np.ones(V, np.bool_), silent)
    before, after = grams_of(table), grams_of(same)
    assert before.keys() == after.keys()
    for gram, values in before.items():
        assert after[gram] == pytest.approx(values, abs=1e-5)


def test_a_marker_cannot_go() -> None:
    staying = np.ones(V, np.bool_)
    staying[END] = False
    with pytest.raises(SettingError, match="belong to every vocabulary"):
        to_words(trained(2), staying, silent)
