"""Networks that learn the residual of a known distribution: loss and gradients, folds, and what may not be given."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from random_networks import DOCUMENT_NETWORKS, STREAM_NETWORKS, random_model
from training_runs import QUICK, RECURRENT, TRANSFORMER, VOCABULARY, numbers, text, trained, validation

import chainrule
from chainrule import NGramConfig, RecurrentConfig, TrainingConfig
from chainrule.base.progress import silent
from chainrule.cli.main import run
from chainrule.errors import SettingError
from chainrule.mixture.components import Components
from chainrule.mixture.interpolation import LinearMixture, LogLinearMixture
from chainrule.mixture.residual import DocumentRows, KnownRows, fold_bounds, with_end, without_fold
from chainrule.models.families.table import FAMILIES
from chainrule.neural.config import MaskedConfig
from chainrule.neural.layers import cross_entropy as outputs
from chainrule.neural.layers.cross_entropy import KnownLogProbs, cross_entropy
from chainrule.protocol import BEGIN, END
from chainrule.training.job import KnownDistribution

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report

TINY = RecurrentConfig(width=8, layers=1, context=8)
STEPS = TrainingConfig(steps=3, batch=2, valid_share=0.1, compile="no", precision="float32")


def ngram(stream: np.ndarray, order: int = 3, size: int = VOCABULARY) -> Any:
    return FAMILIES["ngram"].train(with_end(stream), size, NGramConfig(order=order), silent)[0]


def known() -> KnownDistribution:
    """Of the text of `training_runs`, in folds."""
    bounds = fold_bounds(text(), 3)
    models = [ngram(without_fold(text(), bounds, fold)) for fold in range(3)]
    training = KnownRows(text(), models, 2, bounds)
    return KnownDistribution(training, KnownRows(validation().stream, [ngram(text())], 2), "held out")


@pytest.mark.parametrize("cap", [None, 2.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_and_its_gradients_are_those_of_the_formula(cap, weighted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "HELD", 64 * 7)
    monkeypatch.setattr(outputs, "HELD_IN_TRAINING", 64 * 7)
    monkeypatch.setattr(outputs, "NEAR", 3 * 7)
    chance = torch.Generator().manual_seed(1)
    hidden, weight, bias = (torch.randn(shape, generator=chance) for shape in ((70, 4), (7, 4), (7,)))
    rows = torch.randn(70, 7, generator=chance).log_softmax(1)
    rows[:, BEGIN], bias[BEGIN] = 0, -torch.inf
    targets = torch.randint(2, 7, (70,), generator=chance)
    weights = torch.rand(70, generator=chance) if weighted else None
    inputs = [hidden, weight, bias, torch.tensor(0.7)]
    for each in inputs:
        each.requires_grad_(True)
    beside = KnownLogProbs(lambda span: rows[span], inputs[3])
    found = cross_entropy(hidden, weight, bias, targets, weights=weights, cap=cap, known=beside)
    logits = hidden @ weight.T + bias
    if cap is not None:
        logits = torch.where(bias.isinf(), -torch.inf, cap * torch.tanh((hidden @ weight.T + bias) / cap))
    losses = torch.nn.functional.cross_entropy(logits + 0.7 * rows, targets, reduction="none")
    expected = (losses if weights is None else losses * weights).sum()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4)
    with torch.no_grad():
        silent = cross_entropy(hidden, weight, bias, targets, weights=weights, cap=cap, known=beside)
    torch.testing.assert_close(silent, expected, rtol=1e-5, atol=1e-4)
    gradients = torch.autograd.grad(found, inputs)
    exact = torch.nn.functional.cross_entropy(
        torch.cat((logits[:, :BEGIN], logits[:, BEGIN + 1 :]), 1)
        + inputs[3] * torch.cat((rows[:, :BEGIN], rows[:, BEGIN + 1 :]), 1),
        targets - 1,
        reduction="none",
    )
    wanted = torch.autograd.grad((exact if weights is None else exact * weights).sum(), inputs)
    for gradient, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(gradient, other.nan_to_num(0), rtol=1e-3, atol=1e-4)


def test_folds_are_whole_documents_and_each_is_left_out_once() -> None:
    stream = text(300)
    bounds = fold_bounds(stream, 4)
    assert bounds[0] == 0
    assert bounds[-1] == 300
    assert all(stream[bound - 1] == END for bound in bounds[1:-1])
    for fold in range(4):
        rest = without_fold(stream, bounds, fold)
        expected = [*stream[: bounds[fold]], *stream[bounds[fold + 1] :]]
        assert rest.tolist()[: len(expected)] == expected
        assert rest[-1] == END
    long = np.full(80, 5, np.int32)  # one document, whose folds are equal parts
    assert fold_bounds(long, 4).tolist() == [0, 20, 40, 60, 80]
    assert without_fold(long, fold_bounds(long, 4), 1).tolist() == [5] * 20 + [END] + [5] * 40 + [END]


def test_rows_are_those_of_the_model_that_has_not_seen_the_position() -> None:
    distribution = known().training
    assert isinstance(distribution, KnownRows)
    assert distribution.bounds is not None
    positions = np.array([0, 1, 2, 150, 399, 7, 300, 133, 134])
    rows = distribution(positions)
    for position, row in zip(positions.tolist(), rows, strict=True):
        fold = int((distribution.bounds[1:] <= position).sum())
        before = text()[:position]
        begin = 1 + int(np.flatnonzero(before == END)[-1]) if (before == END).any() else 0
        model = distribution.models[fold]
        [expected] = model.next_log_probs(model.start([before[begin:]]))
        expected[BEGIN] = 0
        assert np.array_equal(row, expected)


def test_a_distribution_that_leaves_tokens_out_is_refused() -> None:
    config = NGramConfig(order=2, smoothing="maximum-likelihood")
    model, _ = FAMILIES["ngram"].train(with_end(text()), VOCABULARY, config, silent)
    with pytest.raises(SettingError, match="gives some token no probability"):
        KnownRows(text(), [model], 1)(np.arange(20))


def test_the_first_step_has_the_loss_of_the_known_distribution() -> None:
    distribution = known()
    for config in (RECURRENT, TRANSFORMER):
        _, record, reports = trained(config, replace(QUICK, validate_every=1), known=distribution)
        rows = distribution.validation(np.arange(100))
        expected = -rows[np.arange(100), validation().stream].mean()
        assert record["residual_weight"] != 1
        first = next(report for report in reports if report.valid_loss is not None)
        assert first.valid_loss == pytest.approx(expected, abs=0.3)
        *_, reports = trained(
            config, replace(QUICK, learning_rate=1e-12, steps=1, validate_every=1), known=distribution
        )
        first = next(report for report in reports if report.valid_loss is not None)
        assert first.valid_loss == pytest.approx(expected, abs=1e-5)


def test_a_run_that_is_interrupted_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole, before, _ = trained(RECURRENT, QUICK, known=known(), folder=tmp_path / "whole")

    def interrupt(report: Report) -> None:
        if report.step == 5:
            raise KeyboardInterrupt  # after the checkpoint of step 3

    with pytest.raises(KeyboardInterrupt):
        trained(RECURRENT, QUICK, known=known(), folder=tmp_path / "parts", told=interrupt)
    resumed, after, _ = trained(RECURRENT, QUICK, known=known(), folder=tmp_path / "parts", resume=True)
    assert numbers(whole) == numbers(resumed)
    assert before["residual_weight"] == after["residual_weight"]


@pytest.fixture(scope="module")
def joined(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An LSTM that learned the residual of a trigram, by the command line."""
    folder = tmp_path_factory.mktemp("residual") / "joined"
    settings = ["--width", "8", "--layers", "1", "--context", "8", "--steps", "4", "--batch", "2", "--compile", "no"]
    assert (
        run(["train", "recurrent", str(fixtures / "train.txt"), "-o", str(folder), "--residual-of", "3", *settings])
        == 0
    )
    return folder


def test_network_and_known_distribution_are_one_model(joined: Path, fixtures: Path) -> None:
    model = chainrule.load(joined)
    engine = model.language_model
    assert isinstance(engine, LogLinearMixture)
    assert engine.components.families == ("recurrent", "ngram")
    assert model.record["residual_of"] == "3"
    network, trigram = engine.components.models
    state = engine.start([np.array([5, 6], np.int32)])
    parts = [each.next_log_probs(each.start([np.array([5, 6], np.int32)]))[0] for each in (network, trigram)]
    logits = parts[0].astype(np.float64) + model.record["weights"][1] * parts[1]
    expected = logits - np.log(np.exp(logits).sum())
    np.testing.assert_allclose(engine.next_log_probs(state)[0], expected, rtol=0, atol=1e-5)
    assert model.evaluate(fixtures / "heldout.txt").perplexity > 1


def test_a_finished_run_is_known_again(joined: Path, fixtures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--width", "8", "--layers", "1", "--context", "8", "--steps", "4", "--batch", "2", "--compile", "no"]
    command = ["train", "recurrent", str(fixtures / "train.txt"), "-o", str(joined), "--resume", *settings]
    assert run([*command, "--residual-of", "3"]) == 0
    assert run([*command, "--residual-of", "4"]) != 0
    assert "residual-of was 3 and is 4" in capsys.readouterr().err


def test_a_model_that_saw_the_text_is_refused_and_another_is_taken(fixtures: Path, tmp_path: Path) -> None:
    chainrule.train(fixtures / "train.txt", NGramConfig(order=3)).save(tmp_path / "seen")
    with pytest.raises(SettingError, match=r"was estimated from .*train.txt, the training text.*residual_of=3"):
        chainrule.train(fixtures / "train.txt", TINY, training=STEPS, residual_of=tmp_path / "seen")
    model = chainrule.train(fixtures / "heldout.txt", TINY, training=STEPS, residual_of=str(tmp_path / "seen"))
    assert model.record["weights"][0] == 1
    lines = (fixtures / "train.txt").read_text().splitlines(keepends=True)
    (tmp_path / "reversed.txt").write_text("".join(lines[::-1]))
    # Of the same lines in another file, with and without the validation text; and of a part of them.
    whole = tmp_path / "whole.txt"
    whole.write_text((fixtures / "heldout.txt").read_text() + "".join(lines))
    chainrule.train(whole, NGramConfig(order=3)).save(tmp_path / "whole")
    chainrule.train(tmp_path / "reversed.txt", NGramConfig(order=3)).save(tmp_path / "again")
    again = chainrule.load(tmp_path / "again")
    bigram = chainrule.train(fixtures / "heldout.txt", NGramConfig(order=2), tokenizer=str(tmp_path / "again"))
    chainrule.mix([bigram, again]).save(tmp_path / "mixed")
    options: dict[str, Any] = {"training": STEPS, "validation": fixtures / "heldout.txt"}
    for seen, part in (("whole", "it"), ("again", "it"), ("mixed", "its 3-gram model")):
        if seen == "mixed":
            options["validation"] = None
        with pytest.raises(
            SettingError, match=rf"{seen}: has seen the training text, though in another file: {part} has 100.0% of its"
        ):
            chainrule.train(fixtures / "train.txt", TINY, residual_of=tmp_path / seen, **options)
    (tmp_path / "most.txt").write_text("".join(lines[::-1][:600]))
    chainrule.train(tmp_path / "most.txt", NGramConfig(order=3)).save(tmp_path / "most")
    notes: list[str] = []
    chainrule.train(
        fixtures / "train.txt",
        TINY,
        residual_of=tmp_path / "most",
        on_report=lambda report: notes.append(report.note or ""),
        **options,
    )
    assert "most seems to have seen the training text, or some of it: it gives it" in " ".join(notes)
    # Of the same kind of text, of which it has most n-grams, and of another text.
    for name, own in (("odd", lines[1::2]), ("even", lines[::2]), ("digits", ["one two two one\n"] * 400)):
        (tmp_path / f"{name}.txt").write_text("".join(own))
    for order in (2, 3, 5):
        chainrule.train(tmp_path / "odd.txt", NGramConfig(order=order)).save(tmp_path / f"odd{order}")
        for name in ("even", "digits"):
            notes.clear()
            chainrule.train(
                tmp_path / f"{name}.txt",
                TINY,
                residual_of=tmp_path / f"odd{order}",
                on_report=lambda report: notes.append(report.note or ""),
                training=STEPS,
            )
            assert "has not seen the training text, as far as its record says" in " ".join(notes)
    with pytest.raises(SettingError, match="cannot be joined: they use"):
        chainrule.train(
            fixtures / "heldout.txt", TINY, training=STEPS, residual_of=tmp_path / "seen", tokenizer="character"
        )


@pytest.mark.parametrize(
    ("config", "training", "message"),
    [
        (
            NGramConfig(order=2),
            None,
            "residual_of is for networks that continue texts, not for a model of family ngram",
        ),
        (MaskedConfig(width=8, heads=1, layers=1), STEPS, "for networks that continue texts, not .* family masked"),
        (replace(TINY, tied=True), STEPS, "cannot be tied"),
        (replace(TINY, output="sampled"), STEPS, "output is sampled"),
        (TINY, replace(STEPS, forcing="student"), "forcing is student"),
        (TINY, replace(STEPS, label_smoothing=0.1), "label_smoothing does not work beside a known distribution"),
    ],
)
def test_what_cannot_learn_a_residual(config, training, message: str, fixtures: Path) -> None:
    with pytest.raises(SettingError, match=message):
        chainrule.train(fixtures / "train.txt", config, training=training, residual_of=2)


@pytest.mark.parametrize("name", ["LSTM of documents", "Transformer, gpt2", "mixture"])
def test_rows_of_any_model_are_those_of_the_position_in_its_document(name: str) -> None:
    network = random_model({**DOCUMENT_NETWORKS, **STREAM_NETWORKS}["LSTM of documents" if name == "mixture" else name])
    stream = np.random.default_rng(1).integers(1, 29, 60).astype(np.int32)
    model: Any = network
    if name == "mixture":
        model = LinearMixture(Components(("lstm", "ngram"), (network, ngram(stream, size=29))), np.array([[0.3, 0.7]]))
    rows = DocumentRows(stream, model)
    positions = np.array([0, 1, 59, 30, 30, 31, 2, 45])
    for position, row in zip(positions.tolist(), rows(positions), strict=True):
        ends = np.flatnonzero(stream[:position] == END)
        [expected] = model.next_log_probs(model.start([stream[ends[-1] + 1 if ends.size else 0 : position]]))
        expected[BEGIN] = 0
        np.testing.assert_allclose(row, expected, rtol=0, atol=1e-5)
    assert rows(positions[:0]).shape == (0, 29)
    with pytest.raises(SettingError, match=r"document of the text has 5,000 tokens.*documents of at most 4,096"):
        DocumentRows(np.full(5000, 5, np.int32), model)


def test_a_network_learns_what_another_network_or_a_mixture_leaves(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lstm = chainrule.train(fixtures / "heldout.txt", TINY, training=STEPS)
    lstm.save(tmp_path / "lstm")
    bigram = chainrule.train(fixtures / "heldout.txt", NGramConfig(order=2), tokenizer=str(tmp_path / "lstm"))
    chainrule.mix([lstm, bigram]).save(tmp_path / "mixed")
    for name, family, says in (
        ("lstm", "recurrent", "as far as its record says"),
        ("mixed", "mixture", "as far as its record says"),
    ):
        flags = ["--width", "8", "--layers", "1", "--context", "8", "--steps", "1", "--batch", "2", "--compile", "no"]
        flags += ["--residual-of", str(tmp_path / name), "--learning-rate", "1e-9"]
        assert run(["train", "recurrent", str(fixtures / "train.txt"), "-o", str(tmp_path / "new"), *flags]) == 0
        assert says in capsys.readouterr().err
        model = chainrule.load(tmp_path / "new")
        assert model.language_model.components.families == ("recurrent", family)
        known = chainrule.load(tmp_path / name)
        text = [np.array([5, 6, 7], np.int32)]
        expected = known.language_model.score(text)[0]
        np.testing.assert_allclose(model.language_model.score(text)[0], expected, rtol=0, atol=1e-3)
        assert run(["verify", str(tmp_path / "new"), "--distribution", "--contexts", "3"]) == 0
        shutil.rmtree(tmp_path / "new")
    for name in ("lstm", "mixed"):
        with pytest.raises(SettingError, match=rf"{name}: was estimated from .*the training text.*an n-gram model, as"):
            chainrule.train(fixtures / "heldout.txt", TINY, training=STEPS, residual_of=tmp_path / name)


def test_what_fills_gaps_is_no_known_distribution(fixtures: Path, tmp_path: Path) -> None:
    config = MaskedConfig(width=8, heads=1, layers=1, context=8)
    chainrule.train(fixtures / "heldout.txt", config, training=STEPS).save(tmp_path / "masked")
    with pytest.raises(SettingError, match="family 'masked'; residual_of takes a model that continues texts"):
        chainrule.train(fixtures / "train.txt", TINY, training=STEPS, residual_of=tmp_path / "masked")


@pytest.mark.parametrize(
    "name",
    ["Transformer, modern, of documents", "Transformer, vaswani", "LSTM of documents", "RNN", "convolution, dilated"],
)
def test_a_long_stream_of_a_log_linear_mixture_equals_its_steps(name: str) -> None:
    network = random_model({**DOCUMENT_NETWORKS, **STREAM_NETWORKS}[name])
    stream = np.random.default_rng(1).integers(2, 29, 150).astype(np.int32)
    trigram = ngram(np.random.default_rng(2).integers(2, 29, 500).astype(np.int32), size=29)
    mixture = LogLinearMixture(Components(("network", "ngram"), (network, trigram)), np.array([1.0, 0.6]))
    state, expected = mixture.start([stream[:0]]), []
    for token in stream:
        expected.append(mixture.next_log_probs(state)[0, token])
        state = mixture.advance(state, np.array([token], np.int32))
    np.testing.assert_allclose(mixture.score_stream(stream), expected, rtol=0, atol=1e-4)


def test_another_n_gram_model_takes_the_place_of_the_known_distribution(
    joined: Path, fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, plain = tmp_path / "other", tmp_path / "plain"
    assert run(["train", "ngram", str(fixtures / "heldout.txt"), "-o", str(other), "--tokenizer", str(joined)]) == 0
    assert run(["mix", str(joined), str(other), "--exchange", "-o", str(tmp_path / "new")]) == 0
    before, after, known = (chainrule.load(path) for path in (joined, tmp_path / "new", other))
    network = before.language_model.components.models[0]
    weights = np.array(before.record["weights"])
    expected = LogLinearMixture(Components(("recurrent", "ngram"), (network, known.language_model)), weights)
    text = [np.array([5, 6, 7], np.int32)]
    np.testing.assert_allclose(after.language_model.score(text)[0], expected.score(text)[0], rtol=0, atol=1e-5)
    assert after.evaluate(fixtures / "heldout.txt").perplexity < before.evaluate(fixtures / "heldout.txt").perplexity
    capsys.readouterr()
    assert run(["mix", str(other), str(joined), "--exchange", "-o", str(plain)]) != 0
    assert "is no network on a residual" in capsys.readouterr().err
    assert run(["mix", str(joined), str(tmp_path / "new"), "--exchange", "-o", str(plain)]) != 0
    assert "expected an n-gram model" in capsys.readouterr().err
    assert run(["mix", str(joined), "--exchange", "-o", str(plain)]) != 0
    assert run(["mix", str(joined), str(other), "--exchange", "--buckets", "3", "-o", str(plain)]) != 0
