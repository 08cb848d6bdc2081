"""Weights by expectation maximisation, and what a held-out text tunes, against slow searches."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import smoothing_oracles as naive
from hypothesis import given
from hypothesis import strategies as st
from oracles import BEGIN, UNKNOWN, random_documents, stream_of

from chainrule.errors import EstimationError, SettingError
from chainrule.ngram.config import SMOOTHINGS, TUNABLE, NGramConfig
from chainrule.ngram.estimation import heldout as heldout
from chainrule.ngram.estimation import jelinek_mercer
from chainrule.ngram.training import train_ngram

SIZE = 9
TRAIN, VALID = random_documents(1, SIZE, 80, 8), random_documents(2, SIZE, 40, 8)


def trained(valid: list[list[int]] | None = None, **settings: Any) -> tuple[Any, dict[str, Any]]:
    return train_ngram(
        stream_of(TRAIN), SIZE, NGramConfig(**settings), heldout=None if valid is None else stream_of(valid)
    )


def log_likelihood(model: Any, documents: list[list[int]]) -> float:
    return float(sum(row.sum(dtype=np.float64) for row in model.score([np.array(d, np.int32) for d in documents])))


@pytest.mark.parametrize("begins", ["one", "all"])
@pytest.mark.parametrize("weights_by", ["count", "level"])
@pytest.mark.parametrize("is_tuned", [True, False])
def test_the_weights_are_those_of_a_naive_expectation_maximisation(
    begins: Any, weights_by: Any, is_tuned: bool, monkeypatch
) -> None:
    monkeypatch.setattr(jelinek_mercer, "_MAX_STEPS", 20)
    monkeypatch.setattr(jelinek_mercer, "_TOLERANCE", -1)
    settings = {"order": 3, "smoothing": "jelinek-mercer", "begins": begins, "weights_by": weights_by}
    model, record = trained(VALID if is_tuned else None, **settings)
    counts = naive.NaiveCounts(TRAIN, SIZE, 3, begins=begins)
    events = naive.NaiveCounts(VALID, SIZE, 3, begins=begins).events if is_tuned else counts.events
    by_count = weights_by == "count"
    actual = naive.weights_by_em(counts, events, left_out=not is_tuned, by_count=by_count, steps=20)
    for (order, bucket), weight in actual.items():
        row = record["weights"][order - 1]
        assert row[min(bucket, len(row) - 1)] == pytest.approx(weight, abs=1e-9), (order, bucket)

    def weight(order: int, total: int) -> float:
        row = record["weights"][order - 1]
        return row[min(int(math.log2(total)), len(row) - 1)]

    prob = naive.jelinek_mercer(counts, weight)
    for history in sorted(counts.histories()):
        prefix = np.array([word for word in history if word != BEGIN], np.int32)
        row = np.exp(model.next_log_probs(model.start([prefix]))[0], dtype=np.float64)
        expected = [0.0 if word == BEGIN else prob(history, word) for word in range(SIZE)]
        np.testing.assert_allclose(row, expected, rtol=1e-4)
        assert row.sum() == pytest.approx(1, abs=1e-5)


def test_a_bucket_that_no_word_reaches_has_its_neighbours_weight() -> None:
    # In training 3 3 stands 63 times after 3, so held-out words reach few buckets; all others have a weight, too.
    model, record = train_ngram(
        stream_of([[3] * 64]),
        5,
        NGramConfig(order=2, smoothing="jelinek-mercer"),
        heldout=stream_of([[3, 3]]),
    )
    assert all(0 < weight < 1 for row in record["weights"] for weight in row)
    assert np.exp(model.next_log_probs(model.start([np.array([4], np.int32)]))).sum() == pytest.approx(1)


@pytest.mark.parametrize("name", ["absolute", "kneser-ney", "modified-kneser-ney"])
def test_no_discounts_nearby_make_the_held_out_text_likelier(name: Any) -> None:
    model, record = trained(VALID, order=2, smoothing=name)
    best = log_likelihood(model, VALID)
    untuned, _ = trained(order=2, smoothing=name)
    assert best > log_likelihood(untuned, VALID)
    if name == "modified-kneser-ney":
        return
    values = [row["values"][0] for row in record["discounts"]]
    for change in itertools.product((-0.03, 0, 0.03), repeat=2):
        near = tuple(min(max(value + by, 0), 1) for value, by in zip(values, change, strict=True))
        other, _ = trained(order=2, smoothing=name, discount=near)
        assert log_likelihood(other, VALID) <= best + 1e-3


def test_three_discounts_are_never_worse_than_one() -> None:
    one, three = (trained(VALID, order=3, smoothing=name)[0] for name in ("kneser-ney", "modified-kneser-ney"))
    assert log_likelihood(three, VALID) >= log_likelihood(one, VALID) - 1e-3


@pytest.mark.parametrize("order", [1, 3])
@pytest.mark.parametrize("begins", ["one", "all"])
def test_no_constant_nearby_makes_the_held_out_text_likelier(order: int, begins: Any) -> None:
    model, record = trained(VALID, order=order, smoothing="lidstone", begins=begins)
    best = log_likelihood(model, VALID)
    for factor in (0.1, 0.8, 1.25, 10):
        constant = record["pseudocount"] * factor
        other, _ = trained(order=order, smoothing="lidstone", begins=begins, pseudocount=constant)
        assert log_likelihood(other, VALID) <= best


def test_very_many_words_are_sampled(monkeypatch) -> None:
    whole, _ = trained(VALID, order=2, smoothing="absolute")
    monkeypatch.setattr(heldout, "MAX_EVENTS", 60)
    thinned, _ = trained(VALID, order=2, smoothing="absolute")
    assert log_likelihood(thinned, VALID) <= log_likelihood(whole, VALID)
    assert log_likelihood(thinned, VALID) == pytest.approx(log_likelihood(whole, VALID), rel=0.05)


def test_the_record_has_the_number_of_tokens() -> None:
    _, record = trained(VALID, order=3, smoothing="absolute", begins="all")
    assert record["tuned_on_tokens"] == sum(len(document) + 1 for document in VALID)


def test_unknown_words_of_a_closed_vocabulary_do_not_spoil_the_tuning() -> None:
    documents = [[word for word in document if word != UNKNOWN] for document in TRAIN]
    config = NGramConfig(order=2, smoothing="absolute", open_vocabulary=False)
    known = [[word for word in document if word != UNKNOWN] for document in VALID]
    actual = []
    for valid in (known, [*known, [UNKNOWN, UNKNOWN]]):
        _, record = train_ngram(stream_of(documents), SIZE, config, heldout=stream_of(valid))
        actual.append([value for row in record["discounts"] for value in row["values"]])
    assert actual[0] == pytest.approx(actual[1], abs=0.1)


@pytest.mark.parametrize("name", TUNABLE)
def test_a_text_without_a_known_word_is_reported(name: Any) -> None:
    with pytest.raises(EstimationError, match="not one word in common"):
        trained([[UNKNOWN, UNKNOWN], []], order=2, smoothing=name)


@pytest.mark.parametrize("name", [name for name in SMOOTHINGS if name not in TUNABLE])
def test_what_has_nothing_to_tune_is_reported(name: Any) -> None:
    with pytest.raises(SettingError, match=f"{name} has nothing to tune; lidstone, "):
        trained(VALID, order=2, smoothing=name)


def test_a_constant_that_is_given_is_not_tuned() -> None:
    with pytest.raises(SettingError, match="choose one of the two"):
        trained(VALID, order=2, smoothing="absolute", discount=(0.5,))


@pytest.mark.parametrize("name", TUNABLE)
@given(data=st.data())
def test_tuning_never_ends_worse_than_it_began(name: Any, data: st.DataObject) -> None:
    """On the text that it tunes on; whatever is pruned, and whoever gets what is kept for the unseen."""
    documents = st.lists(st.lists(st.sampled_from([UNKNOWN, 3, 4, 5]), max_size=6), min_size=1, max_size=4)
    train, valid = data.draw(documents), data.draw(documents)
    valid[0].append(3)
    settings: dict[str, Any] = {"order": data.draw(st.integers(1, 5)), "smoothing": name}
    if name == "lidstone":
        settings["pseudocount"] = data.draw(st.sampled_from([1e-6, 0.5, 1e6]))
    else:
        thresholds = data.draw(st.lists(st.integers(0, 2), max_size=settings["order"] - 1))
        settings["prune"] = (0, *sorted(thresholds))
        settings["interpolate_unigrams"] = data.draw(st.booleans())
    if name == "jelinek-mercer":
        settings["weights_by"] = data.draw(st.sampled_from(["count", "level"]))
    config = NGramConfig(begins=data.draw(st.sampled_from(["one", "all"])), **settings)
    before, after = (train_ngram(stream_of(train), 6, config, heldout=h)[0] for h in (None, stream_of(valid)))
    assert log_likelihood(after, valid) >= log_likelihood(before, valid) - 1e-4
