"""Every estimator against the formulas of the textbooks, n-gram by n-gram; and by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import smoothing_oracles as naive
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, END, UNKNOWN, random_documents, stream_of
from samples import examples

from chainrule.base import threads as base_threads
from chainrule.errors import EstimationError, SettingError
from chainrule.ngram.config import BACKING_OFF, DISCOUNTING, SMOOTHINGS, TUNABLE, NGramConfig
from chainrule.ngram.counting.count import count_ngrams
from chainrule.ngram.estimation import passes as smoothing
from chainrule.ngram.estimation.discounts import counts_of_counts, discounts_of, katz_discounts
from chainrule.ngram.estimation.estimators import ESTIMATORS, TUNED_ESTIMATORS
from chainrule.ngram.models.stupid_backoff import StupidBackoff
from chainrule.ngram.training import count_stream, train_ngram

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C = 3, 4, 5
SIZE = 8  # of the vocabulary; 7 is never seen

ORACLES: dict[str, Callable[[naive.NaiveCounts], naive.Prob]] = {
    "maximum-likelihood": naive.maximum_likelihood,
    "laplace": lambda counts: naive.lidstone(counts, 1),
    "lidstone": lambda counts: naive.lidstone(counts, 0.5),
    "witten-bell": naive.witten_bell,
    "absolute": naive.absolute,
    "good-turing": naive.good_turing,
    "kneser-ney": lambda counts: naive.kneser_ney(counts, backing_off=False, modified=False),
    "kneser-ney-backoff": lambda counts: naive.kneser_ney(counts, backing_off=True, modified=False),
    "modified-kneser-ney": lambda counts: naive.kneser_ney(counts, backing_off=False, modified=True),
    "modified-kneser-ney-backoff": lambda counts: naive.kneser_ney(counts, backing_off=True, modified=True),
    "stupid-backoff": lambda counts: naive.stupid_backoff(counts, 0.4, SIZE),
}


def rows_of(model: Any, histories: list[tuple[int, ...]]) -> np.ndarray:
    """P(w | history), the <s> of a history being those that the model puts there itself."""
    prefixes = [np.array([word for word in history if word != BEGIN], np.int32) for history in histories]
    if isinstance(model, StupidBackoff):
        words = [np.array([word], np.int32) for word in range(SIZE)]
        rows = [np.concatenate(model.score(words, prefixes=[prefix] * SIZE, end=False)) for prefix in prefixes]
        actual = np.array(rows)
        actual[:, BEGIN] = -np.inf
        return np.exp(actual, dtype=np.float64)
    return np.exp(model.next_log_probs(model.start(prefixes)), dtype=np.float64)


@st.composite
def configs(draw: st.DrawFn, name: str) -> NGramConfig:
    order = draw(st.integers(1, 4))
    prunable = name not in ("maximum-likelihood", "laplace", "lidstone")
    thresholds = draw(st.lists(st.integers(0, 3), max_size=order - 1)) if prunable else []
    return NGramConfig(
        order=order,
        smoothing=name,  # type: ignore[arg-type]
        prune=(0, *sorted(thresholds)),
        open_vocabulary=draw(st.booleans()),
        begins=draw(st.sampled_from(["one", "all"])),  # type: ignore[arg-type]
    )


def check(documents: list[list[int]], config: NGramConfig, prob_of: Callable[[naive.NaiveCounts], naive.Prob]) -> None:
    counts = naive.NaiveCounts(
        documents,
        SIZE,
        config.order,
        begins=config.begins,
        open_vocabulary=config.open_vocabulary,
        prune=config.prune,
    )
    model, _ = train_ngram(stream_of(documents), SIZE, config)
    prob = prob_of(counts)
    histories = sorted(counts.histories())
    actual = rows_of(model, histories)
    for history, row in zip(histories, actual, strict=True):
        expected = [0.0 if word == BEGIN else prob(history, word) for word in range(SIZE)]
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-7, err_msg=str(history))
    if config.smoothing != "stupid-backoff":
        np.testing.assert_allclose(actual.sum(axis=1), 1, rtol=0, atol=2e-5)


@pytest.mark.spread(6)
@pytest.mark.parametrize("name", ORACLES)
@examples(1)
@given(data=st.data())
def test_tiny_texts_are_smoothed_as_by_the_formulas(name: str, data: st.DataObject) -> None:
    words = st.sampled_from([UNKNOWN, A, B, C, 6]) if data.draw(st.booleans()) else st.sampled_from([A, B])
    documents = data.draw(st.lists(st.lists(words, max_size=7), min_size=1, max_size=7))
    check(documents, data.draw(configs(name)), ORACLES[name])


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("begins", ["one", "all"])
def test_a_longer_text_is_smoothed_as_by_the_formulas(name: str, begins: Any) -> None:
    config = NGramConfig(order=3, smoothing=name, begins=begins)  # type: ignore[arg-type]
    check(random_documents(5, SIZE - 1, 60, 9), config, ORACLES[name])


def test_all_names_have_an_estimator_and_an_oracle() -> None:
    assert tuple(ESTIMATORS) == SMOOTHINGS
    assert {*ORACLES, "jelinek-mercer"} == set(SMOOTHINGS)  # which is in test_jelinek_mercer.py
    assert set(TUNED_ESTIMATORS) < set(SMOOTHINGS)


def test_given_constants_are_taken_order_by_order() -> None:
    documents = random_documents(3, SIZE - 1, 30, 8)
    model, record = train_ngram(
        stream_of(documents), SIZE, NGramConfig(order=2, smoothing="absolute", discount=(0.3, 0.8))
    )
    assert [row["values"] for row in record["discounts"]] == [[0.3], [0.8]]
    counts = naive.NaiveCounts(documents, SIZE, 2)
    prob = naive.discounted(counts, counts.after, [(0.3,), (0.8,)], backing_off=False)
    assert rows_of(model, [(A,)])[0, B] == pytest.approx(prob((A,), B), rel=1e-5)


# The documents a b | a b | a c | b: a 3, b 3, c 1, </s> 4; <s> a 3, <s> b 1, a b 2, a c 1, b </s> 3, c </s> 1.
HAND = [[A, B], [A, B], [A, C], [B]]


def test_bigrams_by_hand() -> None:
    def prob(name: str, word: int, *history: int, **settings: Any) -> float:
        model, _ = train_ngram(stream_of(HAND), 6, NGramConfig(order=2, smoothing=name, **settings))  # type: ignore[arg-type]
        [row] = model.score([np.array([word], np.int32)], prefixes=[np.array(history, np.int32)], end=False)
        return math.exp(row[0])

    assert prob("maximum-likelihood", B, A) == pytest.approx(2 / 3)
    assert prob("maximum-likelihood", A, A) == 0
    # Five words can follow: <unk>, </s>, a, b, c.
    assert prob("laplace", B, A) == pytest.approx((2 + 1) / (3 + 5))
    assert prob("laplace", A, A) == pytest.approx(1 / 8)
    assert prob("lidstone", C, A, pseudocount=0.1) == pytest.approx((1 + 0.1) / (3 + 0.5))
    assert prob("laplace", B, A, open_vocabulary=False) == pytest.approx((2 + 1) / (3 + 4))
    assert prob("laplace", UNKNOWN, A, open_vocabulary=False) == 0
    # P(a) = (3 + 4/5) / (11 + 4); P(a | a) = 2 P(a) / (3 + 2).
    assert prob("witten-bell", A, A) == pytest.approx(2 * (3.8 / 15) / 5)
    # P(a) = (3 - D)/11 + 4 D / 11 / 5; P(a | a) = 2 D / 3 P(a).
    assert prob("absolute", A, A, discount=(0.5,)) == pytest.approx((2.5 / 11 + 2 / 55) / 3)
    # S(a | a) = 0.4 S(a) = 0.4 * 3/11; <unk>: 0.4 for the context, 0.4 for having no count, a fifth.
    assert prob("stupid-backoff", A, A) == pytest.approx(0.4 * 3 / 11)
    assert prob("stupid-backoff", A, A, backoff_weight=0.5) == pytest.approx(0.5 * 3 / 11)
    assert prob("stupid-backoff", UNKNOWN, A) == pytest.approx(0.4 * 0.4 / 5)
    assert prob("stupid-backoff", UNKNOWN, A, open_vocabulary=False) == 0
    # Left neighbours: a 1, b 2, c 1, </s> 2. P(a) = (1 - D) / 6 + 4 D / 6 / 5 with D = 0.5: n1 = n2 = 2 gives 1/3.
    # P(a | a) = 2 D2 / 3 P(a), D2 = 3 / (3 + 2): <s> b, a c, c </s> are there once, a b twice.
    assert prob("kneser-ney", A, A) == pytest.approx(2 * 0.6 / 3 * ((1 - 1 / 3) / 6 + 4 / 3 / 6 / 5))


def test_katz_discounts_by_hand() -> None:
    # k = 1: q = 2 n2 / n1 = 2/5 and 1* = 2 n2 / n1 = 2/5, so that d1 = (2/5 - 2/5) / ... = 0, which is no discount.
    assert katz_discounts(1, [10, 2, 0, 0, 0, 0]).problem is not None
    # n = 10, 4, 2: k = 2 gives q = 3 2/10 = 0.6; d1 = (0.8 - 0.6) / 0.4 = 0.5; d2 = (3 2/4 / 2 - 0.6) / 0.4 = 0.375.
    actual = katz_discounts(1, [10, 4, 2, 0, 0, 0])
    assert actual.values == pytest.approx((0.5, 1.25, 0.0))
    assert actual.estimated


def test_one_discount_by_hand() -> None:
    config = NGramConfig(smoothing="kneser-ney")
    assert discounts_of(config, 2, counts_of_counts(np.array([1, 1, 1, 1, 2, 2, 3]))).values == (4 / 8,)
    actual = discounts_of(config, 2, counts_of_counts(np.array([1, 1, 3])))
    assert (actual.values, actual.estimated) == ((0.75,), False)
    assert "no 2-gram has a count of 2" in str(actual.problem)


@pytest.mark.parametrize("name", DISCOUNTING)
def test_strict_discounts_make_an_error_where_they_cannot_be_estimated(name: Any) -> None:
    config = NGramConfig(order=2, smoothing=name, strict_discounts=True)
    with pytest.raises(EstimationError, match=r"order 1.*strict_discounts=False would use .* instead"):
        train_ngram(stream_of([[A]]), 4, config)


@pytest.mark.parametrize("name", SMOOTHINGS)
def test_chunks_and_threads_do_not_change_a_byte(name: Any, encoded, monkeypatch) -> None:
    counts = replace(
        count_ngrams(encoded.train, encoded.tokenizer.vocabulary_size, 3), records=None
    )  # so that the two do not share room
    config = NGramConfig(order=3, smoothing=name)
    expected = ESTIMATORS[name](counts, config, lambda *report: None)
    monkeypatch.setattr(smoothing, "CHUNKS", 7)
    monkeypatch.setattr(base_threads, "_threads", 5)
    actual = ESTIMATORS[name](counts, config, lambda *report: None)
    assert actual.log_probs.tobytes() == expected.log_probs.tobytes()
    assert actual.log_backoffs.tobytes() == expected.log_backoffs.tobytes()


@pytest.mark.parametrize("name", [name for name in SMOOTHINGS if name != "stupid-backoff"])
def test_a_vocabulary_all_of_which_was_seen_everywhere_still_sums_to_one(name: Any) -> None:
    documents = [[a, b, c] for a in (A, B) for b in (A, B) for c in (A, B)] * 2 + [[], [A], [B], [A, B], [A, A]]
    model, _ = train_ngram(stream_of(documents), 5, NGramConfig(order=2, smoothing=name, open_vocabulary=False))
    rows = np.exp(model.next_log_probs(model.start([np.array([A], np.int32), np.array([], np.int32)])))
    assert rows.sum(axis=1) == pytest.approx(1)
    assert rows[:, UNKNOWN].tolist() == [0, 0]
    assert np.all(rows[:, [A, B, END]] > 0)


def test_padded_documents_have_full_contexts_everywhere() -> None:
    config = NGramConfig(order=3, smoothing="maximum-likelihood", begins="all")
    counts = count_stream(stream_of(HAND), 6, config)
    naive_counts = naive.NaiveCounts(HAND, 6, 3, begins="all")
    assert counts.counts[counts.level(3)].sum() == len(naive_counts.events)
    one = count_ngrams(stream_of(HAND), 6, 3)
    assert one.counts[one.level(3)].sum() == len(naive_counts.events) - len(HAND)


def test_with_one_word_of_context_all_begins_are_one() -> None:
    for order in (1, 2):
        tables = [
            train_ngram(stream_of(HAND), 6, NGramConfig(order=order, begins=begins))[0].table  # type: ignore[arg-type]
            for begins in ("one", "all")
        ]
        assert tables[0].log_probs.tobytes() == tables[1].log_probs.tobytes()


def test_unknown_has_the_whole_mass_where_only_the_unseen_are_backed_off_to() -> None:
    for name in SMOOTHINGS:
        config = NGramConfig(smoothing=name)  # type: ignore[arg-type]
        assert config.unknown_has_whole_mass == (name in BACKING_OFF)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"smoothing": "kneser"}, "choose one of maximum-likelihood, laplace"),
        ({"smoothing": "laplace", "pseudocount": 2.0}, "laplace has no pseudocount; only lidstone has it"),
        ({"smoothing": "witten-bell", "discount": (0.5,)}, "witten-bell has no discount"),
        ({"smoothing": "witten-bell", "kenlm_compatible": True}, "has no kenlm_compatible"),
        ({"smoothing": "lidstone", "prune": (0, 1)}, "lidstone cannot be pruned"),
        ({"smoothing": "absolute", "discount": (1.5,)}, "from 0 to 1"),
        ({"smoothing": "absolute", "discount": (math.nan,)}, "from 0 to 1"),
        ({"smoothing": "absolute", "discount": [0.5]}, "which is not a tuple; expected numbers"),
        ({"smoothing": "absolute", "discount": (0.5, 0.5), "order": 1}, "at most one for each order"),
        ({"smoothing": "lidstone", "pseudocount": 0.0}, "above 0"),
        ({"smoothing": "lidstone", "pseudocount": math.inf}, "above 0"),
        ({"smoothing": "stupid-backoff", "backoff_weight": 0.0}, "above 0 and up to 1"),
        ({"smoothing": "jelinek-mercer", "weights_by": "word"}, "choose one of count, level"),
        ({"smoothing": "kneser-ney", "order": 2, "weights": (0.3, 0.7)}, "has no weights; only jelinek-mercer has it"),
        ({"smoothing": "jelinek-mercer", "order": 2, "weights": (0.3, 0.6)}, r"0\.3 0\.6 sum to 0\.9; they must"),
        ({"smoothing": "jelinek-mercer", "order": 1, "weights": (1.5,)}, "from 0 to 1"),
        ({"smoothing": "jelinek-mercer", "order": 3, "weights": (0.5, 0.5)}, "expected 3 numbers, one for each order"),
        (
            {"smoothing": "jelinek-mercer", "order": 1, "weights": (1.0,), "weights_by": "level"},
            "choose one of the two",
        ),
        ({"smoothing": "good-turing", "interpolate_unigrams": False}, "has no interpolate_unigrams"),
        ({"begins": "two"}, "choose one of one, all"),
        ({"open_vocabulary": False, "interpolate_unigrams": False}, "choose one of the two"),
        ({"open_vocabulary": 1}, "expected True or False"),
    ],
)
def test_settings_that_cannot_be_are_reported(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        NGramConfig(**settings)


def test_given_weights_are_the_shares_of_the_orders() -> None:
    """Eight tokens are predicted: A twice, B three times, C once, </s> twice."""
    config = NGramConfig(order=3, smoothing="jelinek-mercer", weights=(0.1, 0.3, 0.6))
    model, record = train_ngram(stream_of([[A, B, B], [A, B, C]]), SIZE, config)
    [row] = rows_of(model, [(A, B)])
    bigram = {A: 0, B: 1 / 3, C: 1 / 3, END: 1 / 3}
    unigram = {A: 2 / 8, B: 3 / 8, C: 1 / 8, END: 2 / 8}
    trigram = {A: 0, B: 0.5, C: 0.5, END: 0}
    for word in (A, B, C, END):
        assert row[word] == pytest.approx(0.6 * trigram[word] + 0.3 * bigram[word] + 0.1 * unigram[word], abs=1e-6)
    assert row[UNKNOWN] == 0
    assert record["weights"] == [[1.0], [pytest.approx(0.75)], [0.6]]


def test_one_weight_more_is_that_of_the_uniform_distribution() -> None:
    config = NGramConfig(order=1, smoothing="jelinek-mercer", weights=(0.2, 0.8))
    model, _ = train_ngram(stream_of([[A, A], [B]]), SIZE, config)
    [row] = rows_of(model, [()])
    assert row[A] == pytest.approx(0.8 * 2 / 5 + 0.2 / (SIZE - 1), abs=1e-6)
    assert row[UNKNOWN] == pytest.approx(0.2 / (SIZE - 1), abs=1e-6)
    with pytest.raises(SettingError, match="both weights and a text to tune them on"):
        train_ngram(stream_of([[A]]), SIZE, config, heldout=stream_of([[A]]))


@pytest.mark.spread(8)
@pytest.mark.parametrize("begins", ["one", "all"])
@pytest.mark.parametrize("name", SMOOTHINGS)
def test_a_text_may_be_shorter_than_the_order(name: Any, begins: Any) -> None:
    """Then the highest levels of the trie are empty."""
    for documents in ([[A, B]], [[]], [[], [A]]):
        for order in (3, 5, 7):
            config = NGramConfig(order=order, smoothing=name, begins=begins)
            heldout = [None, stream_of([[A]])] if name in TUNABLE and documents != [[]] else [None]
            for stream in heldout:
                model, _ = train_ngram(stream_of(documents), SIZE, config, heldout=stream)
                if not isinstance(model, StupidBackoff):
                    assert rows_of(model, [(A,), (A, B)]).sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_where_all_is_seen_and_all_of_it_discounted_the_lower_order_decides() -> None:
    """0 / 0 made every number NaN."""
    config = NGramConfig(order=2, smoothing="kneser-ney-backoff", discount=(1.0,), open_vocabulary=False)
    model, _ = train_ngram(stream_of([[A, B, C]]), 6, config)
    assert np.exp(model.table.log_probs[model.table.level(1)]) == pytest.approx([0, 0, 1 / 4, 1 / 4, 1 / 4, 1 / 4])
    [row] = np.exp(model.next_log_probs(model.start([[]])))
    assert row == pytest.approx([0, 0, 1 / 3, 0, 1 / 3, 1 / 3])  # a was seen after <s> once, and that is taken
