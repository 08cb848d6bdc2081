"""Mixtures against naive sums, their tuning against a search, and what cannot be mixed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import chainrule
from chainrule import CacheConfig, Lines, MixtureConfig, NGramConfig, UniformConfig
from chainrule.errors import EstimationError, ModelFormatError, SettingError
from chainrule.evaluation.token_scores import score_tokens
from chainrule.mixture.components import RescaledUnknown
from chainrule.mixture.tuning import classes_of_tokens, linear_weights
from chainrule.models.families.table import FAMILIES
from chainrule.ngram.editing.merging import scale_unknown
from chainrule.ngram.models.table_models import NGramModel
from chainrule.ngram.speller import speller_from_arrays
from chainrule.protocol import END, UNKNOWN
from chainrule.verbs.training.stream import train_speller

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def models(fixtures: Path) -> list[chainrule.Model]:
    configs: list[Any] = [NGramConfig(order=3), NGramConfig(order=1), UniformConfig()]
    return [chainrule.train(fixtures / "train.txt", config, tokenizer="whitespace") for config in configs]


def stream_of(model: chainrule.Model, path: Path) -> np.ndarray:
    return model.tokenizer.encode_texts(path.read_text().splitlines()).ids


def test_a_linear_mixture_is_the_weighted_sum(models, fixtures: Path) -> None:
    mixture = chainrule.mix(models, MixtureConfig(weights=(0.5, 0.3, 0.2)))
    stream = stream_of(models[0], fixtures / "heldout.txt")
    parts = [np.exp(model.language_model.score_stream(stream).astype(np.float64)) for model in models]
    expected = np.log(0.5 * parts[0] + 0.3 * parts[1] + 0.2 * parts[2])
    np.testing.assert_allclose(mixture.language_model.score_stream(stream), expected, atol=1e-5)


def test_a_log_linear_mixture_is_the_normalised_product(models) -> None:
    mixture = chainrule.mix(models[:2], MixtureConfig(kind="log-linear", weights=(0.9, 0.4))).language_model
    contexts = [np.array(words, np.int32) for words in ([], [5], [7, 9])]
    rows = [np.exp(m.language_model.next_log_probs(m.language_model.start(contexts)), dtype=float) for m in models[:2]]
    product = rows[0] ** 0.9 * rows[1] ** 0.4
    expected = product / product.sum(axis=1, keepdims=True)
    found = np.exp(mixture.next_log_probs(mixture.start(contexts)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_tuned_weights_are_the_best(models, fixtures: Path) -> None:
    heldout = fixtures / "heldout.txt"
    stream = stream_of(models[0], heldout)
    mixture = chainrule.mix(models[:2], heldout=heldout)
    parts = [np.exp(model.language_model.score_stream(stream).astype(np.float64)) for model in models[:2]]
    grid = np.linspace(0, 1, 2001)
    best = max(grid, key=lambda weight: np.log(weight * parts[0] + (1 - weight) * parts[1]).mean())
    assert mixture.record["weights"][0][0] == pytest.approx(best, abs=2e-3)
    assert mixture.perplexity(heldout) <= min(model.perplexity(heldout) for model in models[:2])


def test_tuned_log_linear_weights_are_the_best(models, fixtures: Path) -> None:
    heldout = Lines((fixtures / "heldout.txt").read_text().splitlines()[:30])
    mixture = chainrule.mix(models[:2], MixtureConfig(kind="log-linear"), heldout=heldout)
    weights = mixture.record["weights"]
    found = mixture.perplexity(heldout)
    for change in ((0.05, 0), (-0.05, 0), (0, 0.05), (0, -0.05)):
        other = tuple(max(weight + by, 0.0) for weight, by in zip(weights, change, strict=True))
        config = MixtureConfig(kind="log-linear", weights=other)
        assert chainrule.mix(models[:2], config).perplexity(heldout) >= found * (1 - 1e-6)


def test_weights_by_the_token_before_fit_the_text_better(models, fixtures: Path) -> None:
    heldout = fixtures / "heldout.txt"
    plain = chainrule.mix(models, heldout=heldout)
    classed = chainrule.mix(models, MixtureConfig(buckets=4), heldout=heldout)
    assert np.array(classed.record["weights"]).shape == (5, 3)
    assert classed.perplexity(heldout) < plain.perplexity(heldout)


def test_classes_have_about_as_many_tokens_each() -> None:
    stream = np.array([3] * 40 + [4] * 20 + [5] * 10 + [6] * 5 + [7] * 5 + [END] * 9, np.int32)
    classes = classes_of_tokens(stream, 10, 2)
    assert classes.tolist() == [1, 2, 2, 0, 1, 1, 1, 1, 1, 1]


@given(st.integers(0, 1000), st.integers(2, 4))
def test_each_weight_is_its_share_of_the_responsibility(seed: int, number: int) -> None:
    """What a maximum on the simplex must fulfil: no component would gain by more weight."""
    scores = np.log(np.random.default_rng(seed).random((number, 50))).astype(np.float32)
    [weights] = linear_weights(scores)
    probs = np.exp(scores.astype(np.float64))
    gains = (probs / (weights @ probs)).mean(axis=1)
    assert weights.sum() == pytest.approx(1)
    assert gains.max() < 1.01
    np.testing.assert_allclose(gains[weights > 0.05], 1, atol=1e-2)


@pytest.mark.parametrize("kind", ["linear", "classes", "log-linear", "adaptive"])
def test_a_saved_mixture_is_the_same(kind: str, models, fixtures: Path, tmp_path: Path) -> None:
    settings: dict[str, dict[str, Any]] = {
        "classes": {"buckets": 3},
        "log-linear": {"kind": kind},
        "adaptive": {"adaptive": True},
    }
    config = MixtureConfig(**settings.get(kind, {}))
    heldout = Lines((fixtures / "heldout.txt").read_text().splitlines()[:20])
    mixture = chainrule.mix(models, config, heldout=heldout, cache=CacheConfig(words=9))
    chainrule.mix([mixture, models[0]]).save(tmp_path / "again")
    mixture.save(tmp_path / "mix")
    loaded = chainrule.load(tmp_path / "mix")
    texts = (fixtures / "heldout.txt").read_text().splitlines()[:5]
    np.testing.assert_array_equal(loaded.score(texts), mixture.score(texts))
    assert loaded.generate("", 3, seed=1) == mixture.generate("", 3, seed=1)
    assert loaded.evaluate(heldout).bits_per_byte == mixture.evaluate(heldout).bits_per_byte
    nested = chainrule.load(tmp_path / "again").language_model
    stream = stream_of(mixture, fixtures / "heldout.txt")[:50]
    parts = [np.exp(model.language_model.score_stream(stream).astype(np.float64)) for model in (mixture, models[0])]
    np.testing.assert_allclose(nested.score_stream(stream), np.log((parts[0] + parts[1]) / 2), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("components"), "lack components, kind or weights"),
        (lambda s: s.update(components=[]), "lack components, kind or weights"),
        (lambda s: s["components"][0].update(family="other"), "which this version cannot mix"),
        (lambda s: s["components"][0].update(settings=[]), "lack components, kind or weights"),
        (lambda s: s.update(kind="square"), "lack components, kind or weights"),
        (lambda s: s.update(weights=None), "lack components, kind or weights"),
        (lambda s: s.update(weights=[["a", "b"]]), "expected numbers"),
        (lambda s: s.update(weights=[[0.5]]), "has weights"),
        (lambda s: s.update(weights=[[0.5, 0.6]]), "do not sum to 1"),
        (lambda s: s.update(weights=[[math.nan, 1]]), "do not sum to 1"),
    ],
)
def test_damaged_settings_are_an_error(change, message: str, models) -> None:
    settings, arrays = FAMILIES["mixture"].to_state(chainrule.mix(models[:2]).language_model)
    change(settings)
    with pytest.raises(ModelFormatError, match=message):
        FAMILIES["mixture"].from_state(settings, arrays, models[0].vocabulary_size)


def test_a_mixture_cannot_be_trained_on_a_text(fixtures: Path) -> None:
    with pytest.raises(SettingError, match="a mixture is not trained on a text but made of other models"):
        chainrule.train(fixtures / "train.txt", MixtureConfig())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "cubic"}, "no kind of mixture"),
        ({"weights": (0.5, 0.6)}, "sum to 1.1"),
        ({"weights": (math.nan, 1.0)}, "expected one for each model"),
        ({"weights": (-0.5, 1.5)}, "expected one for each model"),
        ({"weights": (0.0, 0.0), "kind": "log-linear"}, "not all 0"),
        ({"weights": ()}, "the weights are none"),
        ({"buckets": 0}, "buckets is 0"),
        ({"buckets": 4, "kind": "log-linear"}, "only linear mixtures"),
        ({"buckets": 4, "weights": (0.5, 0.5)}, "either weights or buckets"),
    ],
)
def test_bad_settings_are_an_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        MixtureConfig(**settings)


def test_models_that_do_not_go_together_are_not_mixed(models, fixtures: Path) -> None:
    other = chainrule.train(fixtures / "train.txt", UniformConfig(), tokenizer="word")
    few = chainrule.train(Lines(["a b c"]), UniformConfig(), tokenizer="whitespace")
    lower = chainrule.train(
        fixtures / "train.txt",
        UniformConfig(),
        tokenizer=chainrule.TokenizerConfig(kind="whitespace", normalise=("lower",)),
    )
    turned = chainrule.train(Lines(["c b a"]), UniformConfig(), tokenizer="whitespace")
    for parts, message in (
        (models[:1], "needs two models"),
        (
            [models[0], other],
            "model 1 and model 2 cannot be mixed: they use whitespace and word; .* train ngram TEXT --tokenizer",
        ),
        ([models[0], lower], "normalised by nothing and by lower"),
        ([models[0], few], "their vocabularies have 338 and 6 tokens"),
        ([few, turned], "give the same 6 tokens other ids"),
    ):
        with pytest.raises(SettingError, match=message):
            chainrule.mix(parts)
    with pytest.raises(SettingError, match="2 weights for 3 models"):
        chainrule.mix(models, MixtureConfig(weights=(0.5, 0.5)))
    with pytest.raises(EstimationError, match="know none of its tokens"):
        chainrule.mix(models, heldout=Lines(["qqqq xxxx"]))


@pytest.fixture(scope="module")
def two(fixtures: Path) -> list[chainrule.Model]:
    """The first gives <unk> the probability of one unseen type, the second, whose text has <unk>, that of all."""
    lines = (fixtures / "train.txt").read_text().splitlines()
    first = chainrule.train(Lines(lines[::2]), NGramConfig(order=3), tokenizer="whitespace")
    stream = first.tokenizer.encode_texts(lines[1::2]).ids
    assert np.any(stream == UNKNOWN)
    language_model, _ = FAMILIES["ngram"].train(stream, first.vocabulary_size, NGramConfig(order=3), lambda *_: None)
    speller = train_speller(first.tokenizer, stream, NGramConfig(order=3), [b"others", b"learned", b"from"])
    return [first, chainrule.CausalModel("ngram", language_model, first.tokenizer, speller=speller)]


def bits(model: chainrule.Model, path: Path) -> float:
    """A token."""
    measured = model.evaluate(path)
    return measured.bits_per_byte * measured.bytes / measured.tokens


MIXTURES: dict[str, Callable[[list[chainrule.Model]], chainrule.Model]] = {
    "dynamic": chainrule.mix,
    "log-linear": lambda models: chainrule.mix(models, MixtureConfig(kind="log-linear", weights=(0.5, 0.5))),
    "cache": lambda models: chainrule.mix(models, cache=CacheConfig(words=20)),
    "nested": lambda models: chainrule.mix([chainrule.mix(models[:1], cache=CacheConfig(words=9)), models[1]]),
    "static": chainrule.merge,
}


@pytest.mark.parametrize("kind", MIXTURES)
def test_the_order_of_models_says_nothing_and_none_costs_much(kind: str, two, fixtures: Path) -> None:
    assert [model.speller.unseen_types > 1 for model in two] == [True, False]
    text = fixtures / "heldout.txt"
    found = bits(MIXTURES[kind](two), text)
    assert found < min(bits(model, text) for model in two) + math.log2(3 if kind == "cache" else 2)
    if kind != "nested":
        assert found == pytest.approx(bits(MIXTURES[kind](two[::-1]), text), rel=1e-6)


def test_unseen_types_that_differ_are_mixed_as_distributions_over_strings(two, fixtures: Path) -> None:
    mixture = chainrule.mix(two)
    encoded = two[0].tokenizer.encode_texts((fixtures / "heldout.txt").read_text().splitlines())
    known = encoded.ids != UNKNOWN
    parts, spelled = [], []
    for model in two:
        scored = score_tokens(model.language_model, model.speller, encoded)
        parts.append(np.exp(scored.closed + scored.unseen))
        spelled.append(np.exp(scored.spelling))
    scored = score_tokens(mixture.language_model, mixture.speller, encoded)
    assert not known.all()
    np.testing.assert_allclose(np.exp(scored.closed + scored.unseen), (parts[0] + parts[1]) / 2, rtol=1e-4)
    np.testing.assert_allclose(np.exp(scored.spelling), (spelled[0] + spelled[1]) / 2, rtol=1e-9)


@pytest.mark.parametrize("order", [1, 2, 4])
def test_a_table_with_fewer_unseen_types_is_the_model_with_fewer(order: int, fixtures: Path) -> None:
    lines = [line.replace("the ", "<unk> ") for line in (fixtures / "train.txt").read_text().splitlines()]
    tokenizer = chainrule.TokenizerConfig(kind="whitespace")
    model = chainrule.train(Lines(lines), NGramConfig(order=order), tokenizer=tokenizer, markers="keep")
    found, expected = (
        NGramModel(scale_unknown(model.language_model.table, 9.0)),
        RescaledUnknown(model.language_model, 9.0),
    )
    stream = stream_of(model, fixtures / "heldout.txt")
    np.testing.assert_allclose(found.score_stream(stream), expected.score_stream(stream), atol=1e-4)
    contexts = [stream[i : i + 3] for i in range(0, 60, 7)]
    rows = found.next_log_probs(found.start(contexts))
    np.testing.assert_allclose(rows, expected.next_log_probs(expected.start(contexts)), atol=1e-4)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1, atol=1e-4)


def test_a_mixture_of_unseen_types_is_saved(two, fixtures: Path, tmp_path: Path) -> None:
    mixture = chainrule.mix([chainrule.mix(two), two[0]])
    mixture.save(tmp_path / "mix")
    loaded = chainrule.load(tmp_path / "mix")
    found, expected = (each.evaluate(fixtures / "heldout.txt").bits_per_byte for each in (loaded, mixture))
    assert found == expected
    assert len(loaded.speller.parts) == 2  # the first one's counts once
    np.testing.assert_allclose(loaded.speller.weights, [0.75, 0.25])
    rng = np.random.default_rng(1)
    assert all(word not in loaded.tokenizer.vocabulary.tokens() for word in (loaded.speller.sample(rng) for _ in "123"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.array([0.5, 0.6])}, "do not sum to 1"),
        ({"weights": np.array([1.5, -0.5])}, "weights of the spellers are not positive"),
        ({"unseen_types": np.array([-1])}, "unseen_types is not a count"),
    ],
)
def test_damaged_spellers_are_an_error(change, message: str, two) -> None:
    speller = chainrule.mix(two).speller
    with pytest.raises(ModelFormatError, match=message):
        speller_from_arrays({**speller.arrays(), **change}, two[0].tokenizer.vocabulary)


def test_a_damaged_ratio_is_an_error(two) -> None:
    settings, arrays = FAMILIES["mixture"].to_state(chainrule.mix(two).language_model)
    settings["components"][0]["unseen_ratio"] = "many"
    with pytest.raises(ModelFormatError, match="'many'"):
        FAMILIES["mixture"].from_state(settings, arrays, two[0].vocabulary_size)
