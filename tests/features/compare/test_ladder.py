"""The ladder: all models on one text."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import chainrule
from chainrule.errors import SettingError, TextError
from chainrule.features.compare import ladder
from chainrule.features.compare.ladder import LARGE_VOCABULARY, RESIDUAL, Networks, networks_for, run_ladder
from chainrule.kinds import CAUSAL_NETWORK, configs_of
from chainrule.text.corpus.corpus import Corpus, Lines

NETWORKS = configs_of(CAUSAL_NETWORK)

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.compare.comparison import Comparison
    from chainrule.training.config import TrainingRun


@pytest.fixture
def texts(fixtures: Path) -> tuple[Corpus, Corpus]:
    return Corpus.of(fixtures / "train.txt"), Corpus.of(fixtures / "heldout.txt")


def test_every_rung_is_the_model_that_training_alone_gives(texts: tuple[Corpus, Corpus]) -> None:
    train, heldout = texts
    comparison = run_ladder(train, heldout, order=4)
    assert [contender.name for contender in comparison.contenders] == [
        "uniform",
        "unigram",
        "bigram",
        "trigram",
        "4-gram",
    ]
    configs = [chainrule.UniformConfig(), *(chainrule.NGramConfig(order=n) for n in range(1, 5))]
    for contender, config in zip(comparison.contenders, configs, strict=True):
        model = chainrule.train(train, config)
        found, expected = contender.measurement, model.evaluate(heldout)
        assert found.log_prob == pytest.approx(expected.log_prob, rel=1e-12)
        assert (found.tokens, found.oov, found.bytes) == (expected.tokens, expected.oov, expected.bytes)
        assert found.signature == expected.signature
        assert contender.parameters == sum(model.record.get("ngrams", []))
        assert contender.train_seconds >= 0


def test_the_best_of_a_markov_chain_of_first_order_is_the_bigram_model(texts: tuple[Corpus, Corpus]) -> None:
    assert run_ladder(*texts, order=3).best.name == "bigram"


def test_the_uniform_model_may_be_the_best() -> None:
    heldout = Lines([f"{word} {word}" for word in "edcba"])
    assert run_ladder(Lines(["a"] * 90 + ["b c d e"]), heldout, order=2).best.name == "uniform"


def test_the_tokenizer_and_the_rule_for_markers_are_the_ones_asked_for() -> None:
    lines = Lines(["a <s> b", "b a"] * 10)
    with pytest.raises(TextError, match="<s> occurs in the text"):
        run_ladder(lines, lines, order=1)
    best = run_ladder(lines, lines, order=1, tokenizer="whitespace", markers="skip").best.measurement
    assert best.tokens == 3 * 20
    assert "tok:whitespace" in best.signature


@pytest.mark.parametrize("order", [-1, 0, 25])
def test_an_order_that_is_not_possible_is_refused_before_the_text_is_read(order: int) -> None:
    with pytest.raises(SettingError, match=f"order {order} is not possible"):
        run_ladder(Lines([]), Lines([]), order=order)


def test_an_unreadable_held_out_text_is_an_error_before_any_n_gram_is_counted(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(b"\xff\n")
    told: list[str] = []
    with pytest.raises(TextError, match="not UTF-8"):
        run_ladder(
            Lines(["a b"] * 10),
            Corpus.of(tmp_path / "bad"),
            progress=lambda task, done, total: told.append(task),
        )
    assert set(told) <= {"reading", "evaluating"}


@pytest.fixture(scope="module")
def whole() -> Comparison:
    """Of all families, on a text of few words."""
    words = ["ka", "vi", "nin", "or", "tu", "ash"]
    lines = [f"{word} {words[(3 * number) % 6]} {word} {word}" for number in range(40) for word in words]
    train, validation, heldout = Lines(lines), Lines(lines[::7]), Lines(lines[::5])
    return run_ladder(train, heldout, order=2, networks=Networks(1e-3, validation))


def test_every_family_of_networks_stands_in_the_table_and_mixtures_last(whole: Comparison) -> None:
    names = [contender.name for contender in whole.contenders]
    assert names[:3] == ["uniform", "unigram", "bigram"]
    assert names[-2:] == ["mixture", "adaptive mixture"]
    families = [contender.record["family"] for contender in whole.contenders[3:-3]]
    assert set(families) == set(NETWORKS) - {"grid"}  # which reads pictures
    assert {"RNN", "LSTM"} <= set(names)
    residual = whole.contenders[-3]
    assert (residual.name, residual.record["family"], residual.record["residual_of"]) == (RESIDUAL, "mixture", "2")
    assert residual.measurement.perplexity < 7


def test_all_learn_from_the_same_tokens_and_the_mixture_is_of_the_best_n_grams_and_networks(whole) -> None:
    signatures = {contender.measurement.token_signature for contender in whole.contenders}
    assert len(signatures) == 1
    *others, mixture, adaptive = whole.contenders
    names = [model["name"] for model in mixture.record["models"]]
    assert [model["name"] for model in adaptive.record["models"]] == names
    mixable = others[2:-1]
    assert len(names) >= 2
    assert set(names) <= {contender.name for contender in mixable}
    assert mixture.parameters == sum(each.parameters for each in mixable if each.name in names)
    assert mixture.train_seconds > sum(each.train_seconds for each in mixable)


def test_learning_curves_end_where_training_does_and_counted_models_have_a_level(whole: Comparison) -> None:
    assert [contender.level is not None for contender in whole.contenders[:4]] == [False, True, True, False]
    for contender in whole.contenders[3:-3]:
        assert contender.curve[-1][0] == pytest.approx(contender.train_seconds)
        assert list(contender.curve) == sorted(contender.curve)
        assert contender.size == 4 * contender.parameters


def test_a_curve_is_that_of_the_size_that_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that begins again has a clock of its own."""
    tell = [(0.5, 3.0), (1.0, 2.0), (0.2, 2.5), (0.4, 1.5)]
    learned = {"training_seconds": 0.4}

    def train(*_: Any, run: TrainingRun, **__: Any) -> Any:
        for seconds, bits in tell:
            run.on_report(SimpleNamespace(step=1, steps=2, seconds=seconds, bits_per_byte=bits))  # type: ignore[misc]
        return SimpleNamespace(network=SimpleNamespace(config=chainrule.RecurrentConfig())), learned

    monkeypatch.setattr(ladder, "FAMILIES", {"recurrent": SimpleNamespace(train=train)})
    monkeypatch.setattr(ladder, "CausalNetwork", lambda *_: None)
    monkeypatch.setattr(ladder, "parameters_of", lambda _: 0)
    tokens: Any = SimpleNamespace(stream=None, tokenizer=SimpleNamespace(vocabulary_size=5))
    rung = ladder._train_network("LSTM", tokens, chainrule.RecurrentConfig(), None, None, lambda *_: None)  # type: ignore[arg-type]
    assert rung.curve == ((0.2, 2.5), (0.4, 1.5))


def test_samples_are_the_same_again_and_again(whole: Comparison) -> None:
    assert all(len(contender.samples) == 3 for contender in whole.contenders)
    again = run_ladder(Lines(["ka vi"] * 20), Lines(["ka vi"]), order=1).contenders[1].samples
    assert again == run_ladder(Lines(["ka vi"] * 20), Lines(["ka vi"]), order=1).contenders[1].samples


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan")])
def test_no_time_is_refused(minutes: float) -> None:
    with pytest.raises(SettingError, match="more than 0"):
        chainrule.compare_families(Lines(["a"]), minutes=minutes)


def test_a_large_vocabulary_gets_an_adaptive_softmax() -> None:
    assert {config.output for _, config in networks_for(LARGE_VOCABULARY)} == {"full"}
    assert {config.output for _, config in networks_for(LARGE_VOCABULARY + 1)} == {"adaptive"}


def test_some_families_are_trained_and_those_that_read_on_are_marked() -> None:
    lines = chainrule.Lines(["ka vi ma", "vi ka", "ma vi ka vi", "ka ka"] * 20)
    counted = chainrule.compare_families(lines, order=2, families=["ngram"])
    assert [one.name for one in counted.contenders] == ["unigram", "bigram"]
    assert "†" not in str(counted)
    both = chainrule.compare_families(lines, order=1, families=["recurrent", "ngram"], minutes=0.002)
    names = [row[0] for row in both.rows()]
    assert names[:3] == ["unigram", "RNN†", "LSTM†"]
    assert "† reads on across documents; the others begin each document anew" in str(both)


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (["lstm"], "families is 'lstm'; expected some of uniform, ngram, "),
        (["ngram", "recurrent"], "families is 'recurrent', a network; set minutes"),
        (["grid"], "families is 'grid'; expected some of"),
        ([], "families is empty"),
    ],
)
def test_families_that_cannot_be_compared_are_refused(families: list[str], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        chainrule.compare_families(chainrule.Lines(["ka vi"] * 20), families=families)
