"""Features, choices and tuned weights, against loops and against trying everything."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_networks import DOCUMENT_NETWORKS, random_model

from chainrule.decoding.shared_prefixes import shared_log_probs
from chainrule.errors import SettingError
from chainrule.evaluation.token_scores import score_sentences
from chainrule.features.metrics.error_rates import CharacterErrors, WordErrors
from chainrule.features.rescore.features import (
    IMPOSSIBLE,
    Features,
    SpelledScorer,
    batches_of,
    features_of,
    first_of_best,
    names_of,
)
from chainrule.features.rescore.lists.nbest import NBestList
from chainrule.features.rescore.rescoring import Reranker, RerankingEvaluation, TuningData, score_lists
from chainrule.features.rescore.tuning import (
    VARIANCE,
    TuningConfig,
    Weights,
    _Search,
    log_posteriors,
    maximum_likelihood,
    minimum_error_rate,
)
from chainrule.mixture.uniform import UniformModel
from chainrule.ngram.config import NGramConfig
from chainrule.text.corpus.corpus import Lines
from chainrule.verbs.training.train import train


class Lengths:
    """A scorer whose log P is minus the number of characters; the empty text is impossible."""

    asked: list[str]

    def log_probs(self, texts, sources):
        self.asked = list(texts)
        return np.array([-float(len(text)) if text else -np.inf for text in texts])


def a_list(*texts: str, score: tuple[float, ...] | None = None, reference: str | None = None) -> NBestList:
    return NBestList("1", texts, {"score": score or (0.0,) * len(texts)}, "here", reference)


def random_problem(rng: np.random.Generator, lists: int = 12, features: int = 3, *, whole: bool = False):
    """Features and word-error statistics of random lists. whole: so that many lines are equal or parallel."""
    sizes = rng.integers(1, 7, lists)
    values = (
        rng.integers(-2, 3, (sizes.sum(), features)).astype(float)
        if whole
        else rng.normal(size=(sizes.sum(), features))
    )
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    errors = np.stack([rng.integers(0, 5, sizes.sum()), np.repeat(rng.integers(1, 6, lists), sizes)], axis=1)
    return Features(tuple("abc")[:features], values, offsets), errors


def test_features_are_own_scores_models_and_words() -> None:
    model = Lengths()
    lists = [a_list("a b", "", score=(-1.0, -2.0)), a_list("c", "a b")]
    found = features_of(lists, {"lm": model})
    assert found.names == ("score", "lm", "words")
    assert found.values.tolist() == [[-1, -3, 2], [-2, IMPOSSIBLE, 0], [0, -1, 1], [0, -3, 2]]
    assert found.offsets.tolist() == [0, 2, 4]
    assert model.asked == ["a b", "", "c"]  # each once


def test_names_must_differ() -> None:
    assert names_of(["am"], ["lm"]) == ("am", "lm", "words")
    for own, models in ((["lm"], ["lm"]), (["words"], []), ([], ["words"])):
        with pytest.raises(SettingError, match="two scores are named"):
            names_of(own, models)


@given(st.lists(st.lists(st.integers(-3, 3), min_size=1, max_size=5), min_size=1, max_size=6))
def test_the_first_of_the_best_is_chosen(lists: list[list[int]]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(values) for values in lists])])
    totals = np.array(list(itertools.chain(*lists)), float)
    expected = [start + values.index(max(values)) for start, values in zip(offsets[:-1].tolist(), lists, strict=True)]
    assert first_of_best(totals, offsets).tolist() == expected


def test_lists_are_kept_whole_and_in_order() -> None:
    lists = [a_list(*["x" * 100] * size) for size in (3000, 3000, 1, 9000, 2)]
    assert [[len(found) for found in some] for some in batches_of(lists)] == [[3000, 3000], [1, 9000], [2]]


def test_an_unknown_word_costs_its_spelling() -> None:
    model = train(Lines(["a b", "b a", "a a"]), NGramConfig(order=2), tokenizer="whitespace")
    texts = ["a b", "b zebra zebra", "", "q"]
    plain = SpelledScorer(model.language_model, model.tokenizer).log_probs(texts)
    assert plain.tolist() == pytest.approx(model.score(texts).tolist())
    spelled = SpelledScorer(model.language_model, model.tokenizer, model.speller).log_probs(texts)
    price = model.speller.log_probs([b"zebra", b"q"]) + np.log(model.speller.unseen_types)
    assert (spelled - plain).tolist() == pytest.approx([0, 2 * price[0], 0, price[1]])
    assert score_sentences(model.language_model, model.tokenizer.encode_texts(texts).ids).unknown.tolist() == [
        0,
        2,
        0,
        1,
    ]


@pytest.mark.spread(7)
@pytest.mark.parametrize("network", [None, *DOCUMENT_NETWORKS])
def test_what_texts_begin_with_alike_can_be_read_once(network: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainrule.decoding.shared_prefixes._NUMBERS_AT_ONCE", 100)
    model: Any = UniformModel(29) if network is None else random_model(DOCUMENT_NETWORKS[network])
    rng = np.random.default_rng(1)
    sequences = [rng.integers(3, 6, length).astype(np.int32) for length in (0, 3, 1, 4, 4, 2, 0, 3, 9)]
    expected = [row.sum() for row in model.score(sequences)]
    assert shared_log_probs(model, sequences).tolist() == pytest.approx(expected, abs=1e-4)
    assert shared_log_probs(model, []).tolist() == []


def test_scorers_may_share_beginnings() -> None:
    model = train(Lines(["a b", "b a", "a a"]), NGramConfig(order=2), tokenizer="whitespace")
    texts = ["a b", "a zebra", "", "a b a", "a b"]
    found = [
        SpelledScorer(model.language_model, model.tokenizer, model.speller, shares).log_probs(texts)
        for shares in (True, False)
    ]
    assert found[0].tolist() == pytest.approx(found[1].tolist(), rel=1e-5)


def loss(features: Features, errors, weights) -> float:
    """Word error rate of the choices, by loops."""
    found = []
    for start, stop in itertools.pairwise(features.offsets.tolist()):
        totals = [float(sum(v * w for v, w in zip(row, weights, strict=True))) for row in features.values[start:stop]]
        found.append(errors[start + totals.index(max(totals))])
    return sum(row[0] for row in found) / sum(row[1] for row in found)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_line_search_finds_the_least_of_all_places(seed: int, whole: bool) -> None:
    rng = np.random.default_rng(seed)
    features, errors = random_problem(rng, whole=whole)
    weights, direction = np.array([1.0, 0.3, -0.2]), np.array([0.0, 1.0, 0.5])
    totals, slopes = features.totals(weights), features.totals(direction)
    crossings = {0.0}
    for start, stop in itertools.pairwise(features.offsets.tolist()):
        for i, j in itertools.combinations(range(start, stop), 2):
            if slopes[i] != slopes[j]:
                crossings.add(float((totals[j] - totals[i]) / (slopes[i] - slopes[j])))
    edges = sorted(crossings)
    places = [edges[0] - 1, *((a + b) / 2 for a, b in itertools.pairwise(edges) if b - a > 1e-9), edges[-1] + 1]
    search = _Search(features, errors, WordErrors())
    least = min(loss(features, errors, weights + place * direction) for place in places)
    found = search.step(weights, direction)
    assert loss(features, errors, weights + found * direction) == pytest.approx(least)
    assert search.loss(weights) == pytest.approx(loss(features, errors, weights))


def test_tuning_finds_what_trying_everything_finds() -> None:
    rng = np.random.default_rng(2)
    features, errors = random_problem(rng, lists=15, features=2)
    start = np.array([1.0, 1.0])
    found = minimum_error_rate(features, errors, WordErrors(), start)
    everywhere = [np.array([1.0, weight]) for weight in np.linspace(-30, 30, 60_001)]
    assert found[0] == 1
    assert loss(features, errors, found) <= min(
        float(_Search(features, errors, WordErrors()).loss(w)) for w in everywhere[::20]
    )


def test_tuning_is_never_worse_than_its_start_and_the_same_for_a_seed() -> None:
    features, errors = random_problem(np.random.default_rng(9), lists=40)
    start = np.array([1.0, 0.5, 0.0])
    config = TuningConfig(restarts=3, seed=4)
    found = minimum_error_rate(features, errors, WordErrors(), start, config)
    assert loss(features, errors, found) <= loss(features, errors, start)
    assert found.tolist() == minimum_error_rate(features, errors, WordErrors(), start, config).tolist()
    alike = np.stack([np.zeros_like(errors[:, 0]), errors[:, 1]], axis=1)
    assert (
        minimum_error_rate(features, alike, WordErrors(), start, config).tolist() == start.tolist()
    )  # nothing to gain


def test_bleu_is_tuned_upwards() -> None:
    rng = np.random.default_rng(1)
    vocabulary = ["the", "cat", "sat", "on", "a", "mat"]
    lists = []
    for _ in range(20):
        reference = rng.choice(vocabulary, 8).tolist()
        texts = [" ".join(np.where(rng.random(8) < share, "dog", reference)) for share in (0.1, 0.3, 0.5)]
        scores = {"score": tuple(rng.normal(size=3)), "good": tuple(text.count("dog") * -1.0 for text in texts)}
        lists.append(NBestList("1", tuple(texts), scores, "here", " ".join(reference)))
    data = TuningData.of(score_lists(lists, {}), "bleu")
    start = np.array([1.0, 0.0, 0.0])
    found = data.tuned("bleu", start, TuningConfig())
    assert data.value(start) < data.value(found)
    assert data.value(found) >= max(data.value(np.array([1.0, weight, 0.0])) for weight in np.linspace(-9, 9, 2000))


def test_the_likeliest_weights_have_no_slope_and_no_better_neighbour() -> None:
    rng = np.random.default_rng(3)
    features, errors = random_problem(rng, lists=60)
    oracles = first_of_best(-errors[:, 0].astype(float), features.offsets)
    found = maximum_likelihood(features, oracles, np.array([1.0, 1.0, 0.0]))
    spreads = features.spreads()

    def objective(weights) -> float:
        total = 0.0
        for oracle, (start, stop) in zip(oracles, itertools.pairwise(features.offsets.tolist()), strict=True):
            totals = features.values[start:stop] @ weights
            total += totals[oracle - start] - np.log(np.exp(totals).sum())
        return total - ((weights * spreads) ** 2).sum() / (2 * VARIANCE)

    for axis in np.eye(3):
        for step in (1e-3, -1e-3, 0.3, -0.3):
            assert objective(found + step * axis) < objective(found)


def test_weights_stay_finite_where_a_score_is_always_right() -> None:
    lists = [a_list("good", "bad", score=(1.0, 0.0), reference="good") for _ in range(5)]
    data = TuningData.of(score_lists(lists, {}), "likelihood")
    found = data.tuned("likelihood", np.array([1.0, 0.0]), TuningConfig())
    assert np.isfinite(found).all()
    assert found[0] > 1


@given(st.lists(st.lists(st.floats(-50, 50), min_size=1, max_size=5), min_size=1, max_size=5))
def test_posteriors_of_a_list_sum_to_one(lists: list[list[float]]) -> None:
    offsets = np.concatenate([[0], np.cumsum([len(values) for values in lists])])
    found = np.exp(log_posteriors(np.array(list(itertools.chain(*lists))), offsets))
    assert np.add.reduceat(found, offsets[:-1]).tolist() == pytest.approx([1.0] * len(lists))


def test_lists_that_were_tuned_on_need_not_be_scored_again() -> None:
    lists = [a_list("a b", "c" * i, reference="a") for i in range(1, 40)]
    blocks = list(score_lists(lists, {"lm": Lengths()}))
    data = TuningData.of(blocks, "cer")
    [again] = data.replayed(lists)
    assert again.features.values.tolist() == blocks[0].features.values.tolist()
    assert again.features.offsets.tolist() == blocks[0].features.offsets.tolist()
    assert again.oracles().tolist() == blocks[0].oracles().tolist()


def test_what_choices_are_worth() -> None:
    lists = [
        a_list("x y", "a y", "a b", score=(0.0, -1.0, -2.0), reference="a b"),
        a_list("c", "d", score=(0.0, -1.0), reference="c"),
    ]
    [block] = score_lists(lists, {"lm": Lengths()})
    chooser = Reranker(np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    measures = [WordErrors(), CharacterErrors()]
    judge = RerankingEvaluation(measures)
    judge.add(block, chooser.before(block), chooser.after(block))
    assert [judge.figure(measures[0], stage).value for stage in ("before", "after", "oracle")] == [2 / 3, 1 / 3, 0]
    assert [judge.figure(measures[1], stage).value for stage in ("before", "after", "oracle")] == [2 / 4, 1 / 4, 0]
    assert judge.change(measures[0]).value == pytest.approx(-1 / 3)
    low, high = judge.change(measures[0]).interval
    assert low <= -1 / 3 <= high
    [first, _] = chooser.ranked(block)
    assert first[1] == {"score": [0, -1, -2], "lm": [-3, -3, -3], "total": [0, 1, 2]}
    assert first[2] == [2, 1, 0]


@pytest.mark.filterwarnings("error")
def test_references_without_words_have_an_infinite_rate_and_no_change() -> None:
    lists = [a_list("x y", "x", score=(0.0, -1.0), reference=""), a_list("c", "d", score=(0.0, -1.0), reference="")]
    [block] = score_lists(lists, {"lm": Lengths()})
    chooser = Reranker(np.array([-1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    measure = WordErrors()
    judge = RerankingEvaluation([measure])
    judge.add(block, chooser.before(block), chooser.after(block))
    assert judge.figure(measure, "after") == (math.inf, (math.inf, math.inf))
    assert judge.change(measure) == (0, (0, 0))


def test_weights_have_names() -> None:
    names = ("score", "lm", "words")
    assert Weights({"lm": 0.5}).with_defaults(names).vector(names).tolist() == [1, 0.5, 0]
    with pytest.raises(SettingError, match="there is a weight for ml, but no such score; expected some of score, lm"):
        Weights({"ml": 0.5}).with_defaults(names)
    with pytest.raises(SettingError, match="lm has no weight"):
        Weights({"score": 1.0}).vector(names)
    with pytest.raises(SettingError, match="the weight of lm is nan"):
        Weights({"lm": float("nan")})
    with pytest.raises(SettingError, match="restarts is -1"):
        TuningConfig(restarts=-1)
