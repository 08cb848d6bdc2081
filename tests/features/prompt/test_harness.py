"""What lm-evaluation-harness is answered, without it: every family, and what they cannot answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import chainrule
from chainrule.cli.main import run
from chainrule.errors import SettingError
from chainrule.evaluation.continuations import Pair
from chainrule.features.prompt.lm_eval_answers import Answers, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ONE_STEP = chainrule.TrainingConfig(steps=1, compile="no")
SMALL: dict[str, Any] = {"layers": 1, "width": 16, "heads": 2, "context": 16}


def mixed(text: Path) -> chainrule.Model:
    orders = [chainrule.train(text, chainrule.NGramConfig(order=order)) for order in (1, 2)]
    return chainrule.mix(orders, chainrule.MixtureConfig(kind="log-linear"))


def trained(config: Any) -> Callable[[Path], chainrule.Model]:
    return lambda text: chainrule.train(text, config, training=ONE_STEP)


FAMILIES: dict[str, Callable[[Path], chainrule.Model]] = {
    "ngram": lambda text: chainrule.train(text, chainrule.NGramConfig(order=3)),
    "mixture": mixed,
    "transformer": trained(chainrule.TransformerConfig(**SMALL)),
    "recurrent": trained(chainrule.RecurrentConfig(layers=1, width=16)),
    "uniform": lambda text: chainrule.train(text, chainrule.UniformConfig()),
}


def stupid_backoff(text: Path) -> chainrule.Model:
    return chainrule.train(text, chainrule.NGramConfig(order=3, smoothing="stupid-backoff"))


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest, fixtures: Path) -> chainrule.Model:
    return FAMILIES[request.param](fixtures / "train.txt")


@pytest.fixture(scope="module")
def masked(fixtures: Path) -> chainrule.Model:
    return trained(chainrule.MaskedConfig(**SMALL))(fixtures / "train.txt")


def test_every_family_answers_all_three_kinds(model: chainrule.Model) -> None:
    answers = Answers(model)
    [(whole, _), (first, _), (second, _)] = answers.continuations(
        [Pair("", "ka vi nin"), Pair("", "ka"), Pair("ka", " vi nin")]
    )
    assert whole == pytest.approx(first + second, rel=1e-5)  # the chain rule
    assert answers.documents(["ka vi nin"]) == [pytest.approx(whole, rel=1e-5)]
    [text] = answers.texts([Request("ka vi", {"until": [" de"], "max_gen_toks": 4, "do_sample": False})])
    greedy = chainrule.SamplingConfig(temperature=0)
    [expected] = model.generate("ka vi", 1, greedy, chainrule.Limits(max_tokens=4, stop=[" de"]), seed=0)
    assert "ka vi" + text == expected
    assert answers.info["family"] == model.family
    assert answers.info["signature"].startswith("tok:word|")


def test_minimal_pairs_are_decided_as_evaluate_does(model: chainrule.Model, tmp_path: Path) -> None:
    pairs = [("ka vi nin", "ka nin vi"), ("vi sa man", "vi man sa"), ("di ba", "the of di ba"), ("a", "zz")]
    lines = [f'{{"sentence_good": "{good}", "sentence_bad": "{bad}"}}\n' for good, bad in pairs]
    (tmp_path / "pairs.jsonl").write_text("".join(lines))
    for ends in (True, False):
        found = Answers(model, ends=ends).continuations([Pair("", text) for pair in pairs for text in pair])
        good, bad = np.array([log_prob for log_prob, _ in found]).reshape(-1, 2).T
        is_tie = np.isclose(good, bad, rtol=1e-6)
        [*_, everything] = model.judge_pairs(tmp_path / "pairs.jsonl", ends=ends)
        assert everything.by_rule["sum"].wins == np.count_nonzero((good > bad) & ~is_tie)
        assert everything.by_rule["sum"].ties == np.count_nonzero(is_tie)


def test_many_requests_are_answered_as_one_by_one(model: chainrule.Model) -> None:
    answers = Answers(model)
    pairs = [Pair(f"{word} vi", " nin" * (i % 3 + 1)) for i, word in enumerate(["ka", "he", "that", "all", "he"])]
    together = answers.continuations(pairs)
    for pair, (log_prob, is_greedy) in zip(pairs, together, strict=True):
        assert answers.continuations([pair]) == [(pytest.approx(log_prob, rel=1e-5), is_greedy)]
    requests = [Request(pair.context, {"until": [], "max_gen_toks": 3}) for pair in pairs]
    assert answers.texts(requests) == [answers.texts([request])[0] for request in requests]
    assert answers.continuations([]) == answers.documents([]) == answers.texts([]) == []


def test_a_network_that_sees_both_sides_ranks_and_does_no_more(masked: chainrule.Model, tmp_path: Path) -> None:
    answers = Answers(masked)
    (tmp_path / "pairs.jsonl").write_text('{"sentence_good": "ka vi nin", "sentence_bad": "ka nin vi zyz"}\n')
    [(good, _), (bad, _), (_, is_greedy)] = answers.continuations(
        [Pair("", "ka vi nin"), Pair("", "ka nin vi zyz"), Pair("ka", " vi")]
    )
    [*_, everything] = masked.judge_pairs(tmp_path / "pairs.jsonl")
    assert (everything.by_rule["sum"].wins == 1) == (good > bad)
    assert not is_greedy
    [(both, _), (before, _), (after, _)] = answers.continuations(
        [Pair("", "ka vi"), Pair("ka vi", ""), Pair("ka", " vi")]
    )
    [one, other] = masked.scorer.score([masked.tokenizer.encode_texts(["ka vi"]).ids[:-1]], end=False)[0]
    assert before == 0
    assert both == pytest.approx(one + other, rel=1e-5)
    assert after == pytest.approx(other, rel=1e-5)
    assert any("pseudo" in warning for warning in answers.warnings)
    for refused in (lambda: answers.documents(["ka"]), lambda: answers.texts([Request("ka", {})])):
        with pytest.raises(SettingError, match="bidirectional"):
            refused()


def test_a_model_of_pairs_takes_the_context_for_its_source() -> None:
    pairs = chainrule.Pairs(["ein Hund", "eine Katze"] * 10, ["a dog", "a cat"] * 10)
    model = chainrule.train_pairs(pairs, chainrule.Seq2SeqConfig(width=16), training=ONE_STEP)
    answers = Answers(model, ends=True)
    asked = [Pair("ein Hund", "a dog"), Pair("eine Katze", "a dog"), Pair("ein Hund", "a cat")]
    found = [log_prob for log_prob, _ in answers.continuations(asked)]
    expected = [model.given(source).evaluate(chainrule.Lines([target])).text_log_prob for source, target in asked]
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    sources = ["eine Katze", "ein Hund"]
    beam = chainrule.BeamConfig(size=1)
    written = model.write(sources, beam, max_tokens=5)
    assert answers.texts([Request(source, {"max_gen_toks": 5}) for source in sources]) == [
        best.text for [best] in written
    ]
    with pytest.raises(SettingError, match="needs a source"):
        answers.documents(["a dog"])


def test_settings_of_generation(model: chainrule.Model) -> None:
    answers = Answers(model, seed=5)
    drawn = {"do_sample": True, "temperature": 0.7, "top_k": 5, "until": "\n\n", "max_new_tokens": 5}
    [text] = answers.texts([Request("ka vi", drawn)])
    sampling = chainrule.SamplingConfig(temperature=0.7, top_k=5)
    assert model.generate("ka vi", 1, sampling, chainrule.Limits(max_tokens=5), seed=5) == ["ka vi" + text]
    with pytest.raises(SettingError, match="penalty_alpha"):
        answers.texts([Request("ka vi", {"penalty_alpha": 0.5})])
    with pytest.raises(SettingError, match="num_beams = 4"):
        answers.texts([Request("ka vi", {"num_beams": 4})])


def test_what_makes_figures_incomparable_is_said(fixtures: Path) -> None:
    scores = Answers(stupid_backoff(fixtures / "train.txt"))
    [(log_prob, is_greedy)] = scores.continuations([Pair("ka", " vi")])
    assert log_prob < 0
    assert not is_greedy
    assert any("do not sum to one" in warning for warning in scores.warnings)
    exact = chainrule.train(fixtures / "train.txt", chainrule.NGramConfig(order=1), tokenizer="byte")
    assert Answers(exact).warnings == []


def test_a_classifier_is_refused(fixtures: Path) -> None:
    network = FAMILIES["transformer"](fixtures / "train.txt")
    examples = [chainrule.Labelled("ka vi", ("yes",)), chainrule.Labelled("vi sa", ("no",))] * 4
    classifier = chainrule.finetune(network, examples, config=chainrule.FineTuningConfig(epochs=1))
    with pytest.raises(SettingError, match="labels texts"):
        Answers(classifier)


def test_without_lm_eval_it_is_said_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chainrule.features.prompt.harness.find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r"chainrule\[harness\]"):
        chainrule.harness("lm/")
    assert run(["harness", "--tasks", "lambada"]) == 1
    assert "pip install 'chainrule[harness]'" in capsys.readouterr().err
    assert run(["harness"]) == 2
