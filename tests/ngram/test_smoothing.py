from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN, NaiveKneserNey, grams_of, random_documents, stream_of

from chainrule.base import threads as base_threads
from chainrule.errors import EstimationError
from chainrule.ngram.config import NGramConfig
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.estimation import passes as smoothing
from chainrule.ngram.estimation.discounting import discounting
from chainrule.ngram.estimation.discounts import FALLBACK, estimate_discounts
from chainrule.ngram.training import train_ngram
from chainrule.ngram.trie.query_kernels import distributions

A, B, C = 3, 4, 5
# The words of four documents: a b | c | c | a a. Bigrams: <s> a 2, a b 1, b </s> 1, <s> c 2, c </s> 2, a a 1, a </s> 1.
TINY = [[A, B], [C], [C], [A, A]]


def check_against_naive(documents: list[list[int]], vocabulary_size: int, config: NGramConfig) -> None:
    model, record = train_ngram(stream_of(documents), vocabulary_size, config)
    oracle = NaiveKneserNey(
        documents,
        vocabulary_size,
        config.order,
        config.prune,
        config.interpolate_unigrams,
        config.kenlm_compatible,
    )
    for actual, expected in zip(record["discounts"], oracle.discounts, strict=True):
        assert actual["values"] == pytest.approx(expected, abs=1e-12)
    table, expected_table = grams_of(model.table), oracle.table()
    assert table.keys() == expected_table.keys()
    for gram, (log_prob, log_backoff) in table.items():
        prob, gamma = expected_table[gram]
        assert math.exp(log_prob) == pytest.approx(prob, rel=1e-5), gram
        assert math.exp(log_backoff) == pytest.approx(gamma, rel=1e-5), gram


@st.composite
def configs(draw: st.DrawFn) -> NGramConfig:
    order = draw(st.integers(1, 5))
    thresholds = draw(st.lists(st.integers(0, 3), max_size=order - 1))
    return NGramConfig(
        order=order,
        prune=(0, *sorted(thresholds)),
        interpolate_unigrams=draw(st.booleans()),
        kenlm_compatible=draw(st.booleans()),
    )


@given(st.lists(st.lists(st.integers(3, 7), max_size=9), min_size=1, max_size=9), configs())
def test_tiny_texts_are_smoothed_as_by_the_formulas(documents: list[list[int]], config: NGramConfig) -> None:
    check_against_naive(documents, 8, config)


@given(st.integers(0, 10**9), st.integers(5, 60), configs())
def test_skewed_texts_are_smoothed_as_by_the_formulas(seed: int, vocabulary_size: int, config: NGramConfig) -> None:
    check_against_naive(random_documents(seed, vocabulary_size, 50, 12), vocabulary_size, config)


def test_discounts_by_hand() -> None:
    # y = 10 / (10 + 2 4) = 5/9; 1 - 2 (5/9) 4/10 = 5/9; 2 - 3 (5/9) 2/4 = 7/6; 3 - 4 (5/9) 1/2 = 17/9
    assert estimate_discounts(2, [10, 4, 2, 1]).values == pytest.approx((5 / 9, 7 / 6, 17 / 9))
    assert estimate_discounts(2, [10, 4, 2, 1]).estimated


def test_no_count_of_four_is_fine() -> None:
    assert estimate_discounts(2, [10, 4, 2, 0]).values[2] == 3


@pytest.mark.parametrize(
    ("n", "reason"),
    [
        ([0, 4, 2, 1], "no 3-gram has an adjusted count of 1"),
        ([9, 0, 2, 1], "no 3-gram has an adjusted count of 2"),
        ([9, 4, 0, 1], "no 3-gram has an adjusted count of 3"),
        # y = 9 / (9 + 2 4) = 9/17; 2 - 3 (9/17) 9/4 = -1.57
        ([9, 4, 9, 1], "the discount for a count of 2 would be -1.574, outside 0 to 2"),
        # 3 - 4 (9/17) 9/2 = -6.53
        ([9, 4, 2, 9], "the discount for a count of 3 would be -6.529, outside 0 to 3"),
    ],
)
def test_discounts_that_cannot_be_estimated_fall_back_and_say_why(n: list[int], reason: str) -> None:
    discounts = estimate_discounts(3, n)
    assert discounts.values == FALLBACK == (0.5, 1.0, 1.5)
    assert discounts.problem is not None
    assert discounts.problem.startswith("order 3: ")
    assert reason in discounts.problem


def test_strict_discounts_make_an_error_that_names_order_and_reason() -> None:
    with pytest.raises(EstimationError, match="order 2: no 2-gram has an adjusted count of 3"):
        train_ngram(stream_of(TINY), 6, NGramConfig(order=2, strict_discounts=True))


def test_strict_discounts_change_nothing_where_all_can_be_estimated(encoded) -> None:
    size = encoded.tokenizer.vocabulary_size
    strict, record = train_ngram(encoded.train, size, NGramConfig(order=3, strict_discounts=True))
    assert all(discounts["estimated"] for discounts in record["discounts"])
    lenient, _ = train_ngram(encoded.train, size, NGramConfig(order=3))
    assert np.array_equal(strict.table.log_probs, lenient.table.log_probs)


def unigram_probs(config: NGramConfig) -> tuple[list[float], list[float]]:
    """What TINY gives the words <unk>, </s>, a, b, c, and the discounts of unigrams."""
    model, record = train_ngram(stream_of(TINY), 6, config)
    probs = np.exp(model.table.log_probs[1:7].astype(float))
    return probs[[UNKNOWN, END, A, B, C]].tolist(), record["discounts"][0]["values"]


def test_unigrams_by_hand() -> None:
    # Left neighbours: a has 2 (<s>, a), b 1 (a), c 1 (<s>), </s> 3 (b, c, a), 7 in all; so n1 = 2, n2 = n3 = 1.
    # y = 2 / (2 + 2 1) = 1/2; D = 1 - 2 (1/2) 1/2 = 0.5, 2 - 3 (1/2) 1/1 = 0.5, 3.
    # gamma = (0.5 + 0.5 + 0.5 + 3) / 7 = 4.5/7, of which each of 5 words gets 0.9/7.
    probs, discounts = unigram_probs(NGramConfig(order=2))
    assert discounts == pytest.approx([0.5, 0.5, 3])
    assert probs == pytest.approx([0.9 / 7, 0.9 / 7, 2.4 / 7, 1.4 / 7, 1.4 / 7])


def test_kenlm_compatible_counts_the_last_suffix_raw_by_hand() -> None:
    # By last word, the last bigram is "<s> c": c enters with its raw count of 2, so that n1 = 1, n2 = 2, n3 = 1.
    # y = 1 / (1 + 2 2) = 1/5; D = 1 - 2 (1/5) 2/1 = 0.2, 2 - 3 (1/5) 1/2 = 1.7, 3.
    # The probabilities still come from the adjusted counts: gamma = (1.7 + 0.2 + 0.2 + 3) / 7, a fifth of it 1.02/7.
    probs, discounts = unigram_probs(NGramConfig(order=2, kenlm_compatible=True))
    assert discounts == pytest.approx([0.2, 1.7, 3])
    assert probs == pytest.approx([1.02 / 7, 1.02 / 7, 1.32 / 7, 1.82 / 7, 1.82 / 7])


def test_without_unigram_interpolation_unknown_gets_gamma_and_the_others_only_their_own() -> None:
    # As above, without the 0.9/7; D(3) = 3 takes all from </s>, exactly.
    probs, _ = unigram_probs(NGramConfig(order=2, interpolate_unigrams=False))
    assert probs == pytest.approx([4.5 / 7, 0, 1.5 / 7, 0.5 / 7, 0.5 / 7])
    assert probs[1] == 0


def test_bigrams_by_hand() -> None:
    # Raw counts; n1 = 4 (a b, b </s>, a a, a </s>), n2 = 3, n3 = 0: the fallback. After <s>: a 2, c 2, D(2) = 1, so
    # gamma = 2/4; P(a | <s>) = 1/4 + (2/4) (2.4/7). After c: </s> 2, gamma = 1/2; P(</s> | c) = 1/2 + (1/2) (0.9/7).
    model, record = train_ngram(stream_of(TINY), 6, NGramConfig(order=2))
    assert record["discounts"][1]["values"] == list(FALLBACK)
    assert "adjusted count of 3" in record["discounts"][1]["problem"]
    grams = grams_of(model.table)
    assert math.exp(grams[BEGIN, A][0]) == pytest.approx(1 / 4 + 1.2 / 7)
    assert math.exp(grams[C, END][0]) == pytest.approx(1 / 2 + 0.45 / 7)
    assert math.exp(grams[BEGIN,][1]) == pytest.approx(1 / 2)
    assert grams[END,][1] == 0  # never a context


@pytest.mark.parametrize(
    "config",
    [
        NGramConfig(order=1),
        NGramConfig(order=3),
        NGramConfig(order=3, interpolate_unigrams=False),
        NGramConfig(order=4, prune=(0, 1, 1, 2)),
        NGramConfig(order=3, prune=(0, 0, 10**6)),
        NGramConfig(order=5, kenlm_compatible=True),
    ],
    ids=str,
)
def test_the_words_after_every_context_sum_to_one(config: NGramConfig, encoded) -> None:
    size = encoded.tokenizer.vocabulary_size
    table = train_ngram(encoded.train, size, config)[0].table
    grams = list(grams_of(table))
    nodes = {gram: i + 1 for i, gram in enumerate(grams)}
    contexts = [()] if config.order == 1 else [gram for gram in grams if len(gram) < config.order and gram[-1] != END]
    assert len(contexts) > (0 if config.order == 1 else 300)
    state = np.array(
        [[nodes.get(gram[-n:], -1) if n <= len(gram) else -1 for n in range(1, config.order)] for gram in contexts],
        np.int64,
    ).reshape(len(contexts), config.order - 1)
    rows = np.empty((len(contexts), size), np.float32)
    distributions(*table.columns, size, state, rows)
    assert np.exp(rows, dtype=np.float64).sum(axis=1) == pytest.approx(1, abs=2e-5)
    assert np.all(rows[:, BEGIN] == -np.inf)


@pytest.mark.parametrize("chunks", [1, 3, 10**6])
def test_chunks_and_threads_do_not_change_a_byte(chunks: int, encoded, monkeypatch) -> None:
    counts = replace(
        count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 3), records=None
    )  # so that the two do not share room
    config = NGramConfig(order=3)
    expected = discounting(counts, config)
    monkeypatch.setattr(smoothing, "CHUNKS", chunks)
    monkeypatch.setattr(base_threads, "_threads", 5)
    actual = discounting(counts, config)
    assert actual.log_probs.tobytes() == expected.log_probs.tobytes()
    assert actual.log_backoffs.tobytes() == expected.log_backoffs.tobytes()


def test_empty_documents_alone_can_be_learnt() -> None:
    # </s> is all there is, twice: D(2) = 1 leaves it 1/2, and the other half is shared by it and <unk>.
    model, _ = train_ngram(stream_of([[], []]), 3, NGramConfig(order=1))
    assert np.exp(model.table.log_probs[1:]).tolist() == pytest.approx([0.25, 0, 0.75])
    deep, record = train_ngram(stream_of([[], []]), 3, NGramConfig(order=4, kenlm_compatible=True))
    assert record["ngrams"] == [3, 1, 0, 0]
    # After <s>, </s> is seen twice: 1/2, and a half of 1/2 + 1/2 1/2 for the one left neighbour that it has.
    assert np.exp(deep.score([np.empty(0, np.int32)])[0]).tolist() == pytest.approx([0.5 + 0.5 * 0.75])


def test_types_that_the_text_lacks_share_with_unknown_what_no_unigram_is_given() -> None:
    # TINY once more, with two more types in the vocabulary: gamma = 4.5/7 in three parts; the others as above.
    model, _ = train_ngram(stream_of(TINY), 8, NGramConfig(order=2, interpolate_unigrams=False))
    probs = np.exp(model.table.log_probs[1:9].astype(float))
    assert probs == pytest.approx([1.5 / 7, 0, 0, 1.5 / 7, 0.5 / 7, 0.5 / 7, 1.5 / 7, 1.5 / 7])


def test_adjusted_counts_take_no_memory_of_their_own() -> None:
    counts = count_ngrams(stream_of(random_documents(5, 3000, 1000, 60)), 3000, 4)
    tracemalloc.start()
    estimates = discounting(counts, NGramConfig(order=4))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    probs = estimates.log_backoffs.nbytes  # of all contexts, which the next order is made of
    assert counts.level_sizes[2] > 20_000  # 4 bytes each
    assert most < probs + 40_000  # both numbers of a model lie where it was counted
