"""Heads on networks of every family: what they are given, that they learn, that they are kept; and what is refused."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from random_networks import random_network

import chainrule
from chainrule.errors import EstimationError, ModelFormatError, SettingError, TextError
from chainrule.features.classify.classification import labelled_units
from chainrule.features.classify.labelled.texts import Labelled
from chainrule.features.classify.network.classifier import layer_widths
from chainrule.features.classify.network.config import ConvolutionBagLabelling
from chainrule.features.classify.objective import Example, LabelObjective, split
from chainrule.features.classify.training import finetune
from chainrule.kinds import CAUSAL_NETWORK, MASKED_MODEL, configs_of
from chainrule.models.families.table import FAMILIES
from chainrule.models.files.folders import build_model
from chainrule.neural.bidirectional_model import BidirectionalModel
from chainrule.neural.language_model import NeuralModel
from chainrule.text.tokenization.tokenizer import Tokenizer
from chainrule.training.config import ClassifierTrainingConfig, FineTuningConfig
from chainrule.training.job import ValidationResult

NETWORKS = configs_of(CAUSAL_NETWORK)
BIDIRECTIONAL = configs_of(MASKED_MODEL)

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report

ANIMALS, FOODS = ("dog", "cat", "bird"), ("bread", "soup", "rice")
TEXTS = [
    Labelled(f"I saw the {thing} {when}", (label,), f"line {i}")
    for i in range(8)
    for label, things in (("animal", ANIMALS), ("food", FOODS))
    for thing in things
    for when in ("today", "again and again")
]
WORDS = [
    Labelled(text.text, tuple("THING" if word in ANIMALS + FOODS else "X" for word in text.text.split()), "")
    for text in TEXTS
]
QUICK = FineTuningConfig(epochs=6, batch=16, learning_rate=0.02, dropout=0.0)


def model(family: str, kind: str = "word") -> chainrule.Model:
    tokenizer = Tokenizer.untrained(kind)
    text = "".join(each.text + "\n" for each in TEXTS).encode()
    tokenizer.encode(np.frombuffer(bytearray(text), np.uint8), grow=True)
    config = {**NETWORKS, **BIDIRECTIONAL}[family](width=16, context=12)
    network = random_network(config, tokenizer.vocabulary_size)
    made = NeuralModel(network) if FAMILIES[family].job == "continue" else BidirectionalModel(network)
    return build_model(family, made, tokenizer)


@pytest.mark.spread(6)
@pytest.mark.parametrize("family", [*NETWORKS, *BIDIRECTIONAL])
def test_a_head_on_any_family_learns_labels_and_is_kept(family: str, tmp_path: Path) -> None:
    base = model(family)
    before = [each.clone() for each in base.engine.network.parameters()]
    learned = finetune(base, TEXTS, "text", QUICK)
    assert all(torch.equal(a, b) for a, b in zip(before, base.engine.network.parameters(), strict=True))
    assert learned.assess(TEXTS).accuracy.share > 0.9
    learned.save(tmp_path / "classifier")
    again = chainrule.load(tmp_path / "classifier")
    texts = ["I saw the soup again", "", "the unknown " * 20]
    for mine, theirs in zip(learned.classify(texts), again.classify(texts), strict=True):
        np.testing.assert_array_equal(mine.log_probs, theirs.log_probs)
        assert np.exp(mine.log_probs).sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(("family", "kind"), [("masked", "word"), ("convolution", "character"), ("two-sided", "word")])
def test_a_classifier_of_words_labels_every_word(family: str, kind: str, tmp_path: Path) -> None:
    learned = finetune(model(family, kind), WORDS, "word", replace(QUICK, epochs=12))
    assert learned.assess(WORDS).accuracy.share > 0.9
    learned.save(tmp_path / "classifier")
    [found] = chainrule.load(tmp_path / "classifier").classify(["I saw  the soup"])
    assert found.units == ["I", "saw", "the", "soup"]
    assert found.log_probs.shape == (4, 2)
    long = "the soup " * 30  # more than the network reads at once
    assert len(learned.classify([long])[0].units) == 60


@pytest.mark.parametrize("family", ["two-sided", "transformer", "bag"])
def test_a_mix_of_layers_is_kept(family: str, tmp_path: Path) -> None:
    learned = finetune(model(family), TEXTS, "text", replace(QUICK, mixed=True))
    learned.save(tmp_path / "classifier")
    again = chainrule.load(tmp_path / "classifier")
    [mine], [theirs] = (each.classify(["I saw the soup again"]) for each in (learned, again))
    np.testing.assert_array_equal(mine.log_probs, theirs.log_probs)
    assert len(again.classifier.mix) == len(layer_widths(again.classifier.network))


def test_frozen_keeps_the_network_and_fresh_forgets_it() -> None:
    base = model("transformer")
    weights = [each.clone() for each in base.engine.network.encoder.parameters()]
    for settings, same in (({"frozen": True}, True), ({"fresh": True}, False)):
        learned = finetune(base, TEXTS, "text", replace(QUICK, epochs=1, **settings)).classifier
        kept = [torch.equal(a, b) for a, b in zip(weights, learned.network.encoder.parameters(), strict=True)]
        assert all(kept) == same


def test_vectors_that_are_tied_to_the_output_learn_too() -> None:
    tokenizer = model("bag").tokenizer
    network = random_network(NETWORKS["transformer"](width=16, context=12, tied=True), tokenizer.vocabulary_size)
    before = network.embedding.weight.clone()
    learned = finetune(
        build_model("transformer", NeuralModel(network), tokenizer), TEXTS, "text", replace(QUICK, epochs=1)
    )
    assert not torch.equal(learned.classifier.network.embedding.weight, before)


def test_a_step_of_many_tokens_is_split_into_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(QUICK, epochs=1, precision="float32")
    whole = finetune(model("bag"), TEXTS, "text", config).classifier
    monkeypatch.setattr("chainrule.features.classify.objective._MAX_PADDED_SIZE", 20)
    parts = finetune(model("bag"), TEXTS, "text", config).classifier
    torch.testing.assert_close(parts.head.weight, whole.head.weight, rtol=0, atol=1e-4)


def test_predicted_words_are_those_that_were_split() -> None:
    learned = finetune(model("bag", "whitespace"), WORDS, "word", replace(QUICK, epochs=1))
    [found] = learned.classify(["I\u00a0saw  the\u3000soup \n again"])
    assert found.units == ["I\u00a0saw", "the\u3000soup", "again"]
    assert found.log_probs.shape == (3, 2)


GIVEN = ["I", "don't", "know", "U.S.", "Größe", "naïve", "(e.g.", "it)", "...", "''tis", "''", "日本", "\u200d", "x"]


@pytest.mark.parametrize("kind", ["word", "whitespace", "character", "byte", "bpe", "unigram", "wordpiece"])
def test_tokens_are_aligned_with_the_given_words(kind: str) -> None:
    """Each word's tokens are those of the word by itself, or after a space."""
    pieces = kind in ("bpe", "unigram", "wordpiece")
    tokenizer = chainrule.TokenizerConfig(kind=kind, vocabulary_size=300 if pieces else None)
    lines = chainrule.Lines([" ".join(GIVEN)] * 20 + [f"a {word}" for word in GIVEN])
    base = chainrule.train(lines, chainrule.UniformConfig(), tokenizer=tokenizer)
    text = " ".join(GIVEN)
    for labels in (tuple(GIVEN), tuple(GIVEN[:-1])):
        examples = [Labelled(" ".join(labels), labels), Labelled("", ()), Labelled(GIVEN[1], (GIVEN[1],))]
        for found, example in zip(labelled_units(base.tokenizer, examples, "word"), examples, strict=True):
            assert found.number == len(example.labels)
            for number, word in enumerate(example.labels):
                own = found.tokens[found.of_tokens == number].tolist()
                alone, after = (base.tokenizer.encode_texts([each]).ids[:-1].tolist() for each in (word, f"a {word}"))
                assert own == (after[len(after) - len(own) :] if number else alone), (text, word)


def test_fewer_words_than_labels_is_an_error_that_names_the_line() -> None:
    with pytest.raises(
        TextError, match=r"^line 3: the text has 2 words, but 3 labels; expected one label for each word$"
    ):
        finetune(model("bag"), [Labelled("a saw", ("X", "Y", "Z"), "line 3")], "word", QUICK)


def test_an_error_about_a_marker_in_a_labelled_text_names_the_line() -> None:
    base = model("bag")
    examples = [*TEXTS, Labelled("a <s> b", ("food",), "reviews.tsv, line 7")]
    with pytest.raises(TextError, match=r"^reviews\.tsv, line 7: <s> occurs in the text"):
        finetune(base, examples, "text", QUICK)
    with pytest.raises(TextError, match=r"^reviews\.tsv, line 7: <s> occurs in the text"):
        finetune(base, TEXTS, "text", replace(QUICK, epochs=1)).assess(examples)


def test_a_damaged_network_gives_no_labels() -> None:
    learned = finetune(model("bag"), TEXTS, "text", replace(QUICK, epochs=1))
    learned.classifier.head.bias.data[0] = float("nan")
    with pytest.raises(ModelFormatError, match="chainrule verify"):
        learned.classify(["a saw"])


def test_training_ends_early_and_the_best_epoch_is_kept() -> None:
    reports: list[Report] = []
    learned = finetune(
        model("bag"),
        TEXTS,
        "text",
        replace(QUICK, epochs=60, patience=1, learning_rate=0.5, valid_share=0.3),
        on_report=reports.append,
    )
    record = learned.record
    assert record["epochs"] == sum(report.valid_loss is not None for report in reports) < 60
    assert record["best_epoch"] == record["epochs"] - 1
    assert record["validation_examples"] > 0
    assert 0 <= record["validation_accuracy"] <= 1


def test_the_epoch_is_the_one_of_the_best_reported_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loss falls from epoch to epoch; the accuracy is best in the second."""
    validated = iter(
        ValidationResult(loss, 10, {"accuracy": share}, -share) for loss, share in ((0.9, 0.5), (0.8, 0.9), (0.7, 0.8))
    )
    monkeypatch.setattr(LabelObjective, "validate", lambda self, tokens: next(validated))
    record = finetune(model("bag"), TEXTS, "text", replace(QUICK, epochs=3, valid_share=0.3)).record
    assert (record["best_epoch"], record["validation_accuracy"], record["validation_nats"]) == (2, 0.9, 0.8)
    assert record["validation"]["while_learning"]["loss"] == 0.8


def test_the_figures_of_validation_are_those_of_an_assessment_of_the_texts_that_were_kept() -> None:
    learned = finetune(model("bag"), TEXTS, "text", replace(QUICK, epochs=3, valid_share=0.3, precision="float32"))
    kept = [
        text.input
        for text in split([Example(text, np.array([len(text.labels[0])])) for text in TEXTS], 0.3, 0).validation
    ]
    found = learned.assess(kept)
    assert learned.record["validation_examples"] == len(kept) == 28
    assert learned.record["validation_nats"] == pytest.approx(found.nats, rel=1e-5)
    assert learned.record["validation_accuracy"] == found.accuracy.share


class Interrupt:
    """Keeps reports, and asks for an end after an epoch, as Ctrl-C does."""

    def __init__(self, epoch: int, number: int = signal.SIGINT) -> None:
        self.epoch, self.number = epoch, number
        self.losses: list[float] = []
        self.notes: list[str] = []

    def __call__(self, report: Report) -> None:
        self.notes += [] if report.note is None else [report.note]
        if report.valid_loss is not None:
            self.losses.append(report.valid_loss)
            if len(self.losses) == self.epoch:
                os.kill(os.getpid(), self.number)


def test_ctrl_c_takes_the_best_epoch_so_far(tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=9, patience=9, valid_share=0.2)
    interrupt = Interrupt(4)
    record = finetune(model("bag"), TEXTS, "text", settings, on_report=interrupt).record
    best = 1 + int(np.argmin(interrupt.losses))
    assert record["epochs"] == 4
    assert record["best_epoch"] == best
    steps = record["steps"]
    assert interrupt.notes[-1] == (
        f"interrupted after step {steps}; kept the best weights so far, of step {steps // 4 * best}"
    )
    for interrupting in (
        {"progress": _interrupted},
        {"on_report": Interrupt(4, signal.SIGTERM), "folder": tmp_path / "sent"},
    ):
        with pytest.raises(KeyboardInterrupt):
            finetune(model("bag"), TEXTS, "text", settings, **interrupting)


def test_a_run_that_was_ended_goes_on_in_its_folder(tmp_path: Path) -> None:
    settings = replace(QUICK, epochs=6, patience=6, valid_share=0.2, dropout=0.2)
    whole = finetune(model("bag"), TEXTS, "text", settings)
    with pytest.raises(KeyboardInterrupt, match="the run is saved"):
        finetune(model("bag"), TEXTS, "text", settings, on_report=Interrupt(2, signal.SIGTERM), folder=tmp_path)
    with pytest.raises(SettingError, match="the text has changed"):
        finetune(model("bag"), [*TEXTS[1:], TEXTS[0]], "text", settings, folder=tmp_path, resume=True)
    other = model("bag")
    other.engine.network.embedding.weight.data[5] += 1
    with pytest.raises(SettingError, match="weights was"):
        finetune(other, TEXTS, "text", settings, folder=tmp_path, resume=True)
    resumed = finetune(model("bag"), TEXTS, "text", settings, folder=tmp_path, resume=True)
    assert torch.equal(resumed.classifier.head.weight, whole.classifier.head.weight)
    assert resumed.record["validation"] == whole.record["validation"]


def test_minutes_end_it() -> None:
    record = finetune(model("bag"), TEXTS, "text", replace(QUICK, epochs=None, minutes=0.005)).record
    assert record["steps"] >= 1
    assert record["most_epochs"] is None
    with pytest.raises(SettingError, match="epochs and minutes are both given"):
        replace(QUICK, minutes=1.0)


def _interrupted(*told: object) -> None:
    raise KeyboardInterrupt


def test_the_same_seed_gives_the_same_classifier() -> None:
    runs = [finetune(model("recurrent"), TEXTS, "text", replace(QUICK, epochs=2, seed=s)).classifier for s in (1, 1, 2)]
    heads = [run.head.weight for run in runs]
    assert torch.equal(heads[0], heads[1])
    assert not torch.equal(heads[0], heads[2])


def test_unseen_labels_and_bad_settings_are_errors() -> None:
    base = model("bag")
    learned = finetune(base, TEXTS, "text", replace(QUICK, epochs=1))
    unseen = (
        r"line 9: the label 'tool' was not seen in training, nor was any other .*; "
        r"expected some of the 2 known: 'animal', 'food'"
    )
    with pytest.raises(TextError, match=unseen):
        learned.assess([Labelled("a saw", ("tool",), "line 9")])
    with pytest.raises(TextError, match="all labels are 'animal'"):
        finetune(base, TEXTS[:6], "text", QUICK)
    for wrong in (("masked/", TEXTS), (base, TEXTS, "text", {"epochs": 1}), (base, "labelled.tsv")):
        with pytest.raises(TypeError, match=r"as chainrule.load gives|a FineTuningConfig|expected several, in a list"):
            finetune(*wrong)
    with pytest.raises(TextError, match="no labelled texts"):
        learned.assess([])
    with pytest.raises(AttributeError, match="has no attribute 'classify'"):
        base.classify(["a"])
    with pytest.raises(SettingError, match="has no encoder"):
        finetune(chainrule.train(chainrule.Lines(["a b"])), TEXTS)
    with pytest.raises(SettingError, match="frozen and fresh are both given"):
        FineTuningConfig(frozen=True, fresh=True)
    with pytest.raises(SettingError, match="device is 0; expected a string"):
        FineTuningConfig(device=0)
    broken = model("bag")
    broken.engine.network.embedding.weight.data[:] = float("nan")
    with pytest.raises(EstimationError, match=r"step 1, after 0 tokens; try a lower learning_rate$"):
        finetune(broken, TEXTS, "text", QUICK)
    for verb in ("next", "generate", "score"):
        with pytest.raises(AttributeError, match=f"has no attribute '{verb}'"):
            getattr(learned, verb)
    with pytest.raises(SettingError, match="a fine-tuned classifier has no vectors of its own; embed with the network"):
        learned.embed(["a"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": ["a"]}, "expected a list of 2 or more strings"),
        ({"labels": 5}, "expected a list of 2 or more strings"),
        ({"unit": "letter"}, "expected text, word or pair"),
        ({"base": "ngram"}, "not a family of networks"),
        ({"labels": ["a", "b", "c"]}, "head.weight"),
        ({"network": None}, "expected an object"),
    ],
)
def test_a_damaged_classifier_is_refused(changes: dict[str, object], message: str) -> None:
    learned = finetune(model("bag"), TEXTS, "text", replace(QUICK, epochs=1))
    settings, arrays = FAMILIES["classifier"].to_state(learned.engine)
    with pytest.raises(ModelFormatError, match=message):
        FAMILIES["classifier"].from_state({**settings, **changes}, arrays, learned.vocabulary_size)
    for name, array in (("mix", np.zeros(3, np.float32)), ("head.weight", np.zeros(4, np.float32))):
        with pytest.raises(ModelFormatError, match=r"head|mix"):
            FAMILIES["classifier"].from_state(settings, {**arrays, name: array}, learned.vocabulary_size)


@pytest.mark.parametrize(
    ("texts", "batch", "epochs"), [(100, 8, 30), (2700, 8, 13), (6400, 16, 10), (12_800, 32, 10), (10**6, 32, 10)]
)
def test_few_texts_are_gone_through_in_more_steps_of_fewer(texts: int, batch: int, epochs: int) -> None:
    fitted = FineTuningConfig().fitted_to(texts)
    assert (fitted.batch, fitted.epochs) == (batch, epochs)
    said = FineTuningConfig(batch=3, epochs=2).fitted_to(texts)
    assert (said.batch, said.epochs) == (3, 2)


@pytest.mark.parametrize(("examples", "batch"), [(100, 8), (1600, 16), (3199, 16), (3200, 32)])
def test_the_default_network_takes_a_full_batch_once_an_epoch_has_100_steps(examples: int, batch: int) -> None:
    steps = ConvolutionBagLabelling.steps_in_epoch
    assert ClassifierTrainingConfig().fitted_to(examples, steps).batch == batch
