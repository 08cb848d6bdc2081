"""Networks that learn from a teacher: the loss and its gradient, what teachers say, exact resuming, and refusals."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from training_runs import QUICK, RECURRENT, VOCABULARY, numbers, text, trained

import chainrule
from chainrule import Lines, MaskedConfig, NGramConfig, RecurrentConfig, TrainingConfig, TransformerConfig
from chainrule.base.progress import silent
from chainrule.cli.main import run
from chainrule.errors import ChainruleError, ModelFormatError, SettingError
from chainrule.features.distillation.loss import taught_into_gradient
from chainrule.features.distillation.teachers import Taught, Teachers
from chainrule.mixture.residual import fold_bounds, without_fold
from chainrule.models.families.table import FAMILIES
from chainrule.neural.layers import cross_entropy as outputs
from chainrule.neural.layers.cross_entropy import cross_entropy
from chainrule.protocol import BEGIN, END
from chainrule.text.corpus.corpus import source_of
from chainrule.text.tokenization.tokenizer import encode_stream
from chainrule.verbs.training.options import TeacherOptions, TrainOptions

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.training.reports import Report

TINY = RecurrentConfig(width=8, layers=1, context=8)
STEPS = TrainingConfig(steps=2, batch=2, valid_share=0.1, compile="no", precision="float32")
TEXTS = ["a b c d e f", "b c a d f e", "c a b b a", "d e f a b c c a", "a a b c f"] * 6


def naive_loss(logits: Any, targets: Any, tokens: Any, probs: Any, weight: float, temperature: float) -> Any:
    """The formula, a position at a time: the tokens that are not kept are one token."""
    total = torch.zeros((), dtype=torch.float64)
    for row, target, kept, teacher in zip(logits, targets.tolist(), tokens, probs, strict=True):
        total = total - (1 - weight) * row.log_softmax(0)[target]
        student = (row / temperature).softmax(0)
        near = student[kept]
        p, q = torch.cat([near, (1 - near.sum())[None]]), torch.cat([teacher, (1 - teacher.sum())[None]])
        total = total + weight * temperature**2 * (q * (q.log() - p.log())).sum()
    return total


def some_teacher(logits: torch.Tensor, temperature: float, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    probs, tokens = (logits / temperature).softmax(1).topk(k, 1, sorted=False)
    return tokens, probs


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_the_loss_and_its_gradients_are_those_of_the_formula(temperature, cap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "HELD", 64 * 7)
    monkeypatch.setattr(outputs, "HELD_IN_TRAINING", 64 * 7)
    monkeypatch.setattr(outputs, "NEAR", 3 * 7)
    chance = torch.Generator().manual_seed(1)
    hidden, weight = (torch.randn(shape, generator=chance).requires_grad_() for shape in ((70, 4), (7, 4)))
    targets = torch.randint(0, 7, (70,), generator=chance)
    tokens, probs = some_teacher(torch.randn(70, 7, generator=chance), temperature, 3)

    def taught(span: slice, logits: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        return taught_into_gradient(logits, wanted, tokens[span], probs[span], 0.3, temperature)

    found = cross_entropy(hidden, weight, None, targets, cap=cap, taught=taught)
    logits = hidden.double() @ weight.double().T
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    expected = naive_loss(logits, targets, tokens, probs.double(), 0.3, temperature)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    for gradient, wanted in zip(
        *(torch.autograd.grad(loss, [hidden, weight]) for loss in (found, expected)), strict=True
    ):
        torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_teacher_that_is_the_student_only_scales_the_loss(temperature: float) -> None:
    logits = torch.randn(20, 9, generator=torch.Generator().manual_seed(2))
    logits[:, BEGIN] = -torch.inf
    targets, alone = torch.arange(20) % 6 + 2, logits.clone()
    tokens, probs = some_teacher(logits, temperature, 4)
    loss = taught_into_gradient(logits, targets, tokens, probs, 0.25, temperature)
    expected = outputs.into_gradient(alone, targets)
    torch.testing.assert_close(loss, 0.75 * expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(logits, 0.75 * alone, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trigram, an LSTM and a mixture of both, with one vocabulary, of the text that is learned from; and others."""
    folder = tmp_path_factory.mktemp("teachers")
    trigram = chainrule.train(Lines(TEXTS), NGramConfig(order=3), tokenizer="whitespace")
    trigram.save(folder / "trigram")
    lstm = chainrule.train(Lines(TEXTS), TINY, training=STEPS, tokenizer=str(folder / "trigram"))
    lstm.save(folder / "lstm")
    chainrule.mix([trigram, lstm]).save(folder / "mixed")
    chainrule.mix([trigram, lstm], chainrule.MixtureConfig(kind="log-linear")).save(folder / "log-linear")
    chainrule.train(Lines(["x y z"] * 40), NGramConfig(order=2), tokenizer="whitespace").save(folder / "other")
    return folder


def said(home: Path, *teachers: int | str, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """The text, and what teachers say of it: probabilities of all tokens, 0 of those that are not kept."""
    tokenizer = chainrule.load(home / "trigram").tokenizer
    names = [name if isinstance(name, int) else home / name for name in teachers]
    opened = Teachers(TrainOptions(Lines(TEXTS), teacher=names, **options), TINY)
    stream = encode_stream(tokenizer, Lines(TEXTS), silent)
    taught, _ = opened.read(tokenizer, source_of(Lines(TEXTS)), stream, None, silent)
    rows = np.zeros((len(stream), tokenizer.vocabulary_size))
    np.put_along_axis(rows, taught.tokens.astype(np.int64), taught.probs.astype(np.float64), axis=1)
    return stream, rows


def stepped(model: Any, stream: np.ndarray, begin: int, end: int) -> np.ndarray:
    """The probabilities of a model along a part of a text, a token at a time."""
    state, rows = model.start([stream[:0]]), []
    for token in stream[begin:end]:
        rows.append(np.exp(model.next_log_probs(state)[0].astype(np.float64)))
        state = model.advance(state, np.array([token], np.int32))
    return np.array(rows)


def in_folds(stream: np.ndarray, size: int, order: int, of_fold: Any = lambda ngram: ngram) -> np.ndarray:
    """The probabilities along a text of what is made of n-gram models of the other folds."""
    bounds, rows = fold_bounds(stream), []
    for fold, (begin, end) in enumerate(itertools.pairwise(bounds)):
        rest = without_fold(stream, bounds, fold)
        ngram, _ = FAMILIES["ngram"].train(rest, size, NGramConfig(order=order), silent)
        rows.append(stepped(of_fold(ngram), stream, begin, end))
    return np.concatenate(rows)


def test_n_gram_models_teach_what_they_have_not_seen(home: Path) -> None:
    stream, rows = said(home, 3, teacher_tokens=3)
    expected = in_folds(stream, rows.shape[1], 3)
    np.testing.assert_allclose(rows[rows > 0], expected[rows > 0], rtol=1e-3, atol=1e-6)  # float16
    assert ((rows > 0).sum(1) == 3).all()
    assert (np.where(rows > 0, np.inf, expected).min(1) >= 0).all()
    for row, whole in zip(rows, expected, strict=True):
        assert whole[row > 0].min() >= whole[row == 0].max() - 1e-6
    assert np.array_equal(said(home, "trigram", teacher_tokens=3)[1], rows)  # which has seen the text


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_teachers_and_mixtures_teach_their_mean(home: Path, temperature: float) -> None:
    lstm = chainrule.load(home / "lstm").language_model
    for names in ((3, "lstm"), ("mixed",), ("trigram", "lstm")):
        stream, rows = said(home, *names, teacher_tokens=6, teacher_temperature=temperature)
        bounds = fold_bounds(stream)
        read = [stepped(lstm, stream, begin, end) for begin, end in itertools.pairwise(bounds)]
        mean = (in_folds(stream, rows.shape[1], 3) + np.concatenate(read)) / 2
        soft = mean ** (1 / temperature)
        soft /= soft.sum(1, keepdims=True)
        np.testing.assert_allclose(rows[rows > 0], soft[rows > 0], rtol=2e-3, atol=1e-5)


def test_models_that_read_no_streams_teach_by_steps(home: Path) -> None:
    stream, rows = said(home, "log-linear", teacher_tokens=8)
    mixture = chainrule.load(home / "log-linear").language_model
    parts = mixture.components

    def of_fold(ngram: Any) -> Any:
        mixture.components = replace(parts, models=(ngram, parts.models[1]))
        return mixture

    expected = in_folds(stream, rows.shape[1], 3, of_fold)
    ends = np.flatnonzero(stream == END)[:-1] + 1
    begins = np.isin(np.arange(len(stream)), [*ends, 0])  # of documents, where the network of a stream begins anew here
    np.testing.assert_allclose(rows[begins & (rows.sum(1) > 0.99)].sum(1), 1, atol=1e-2)
    first = slice(0, int(ends[0]))
    kept = rows[first] > 0
    np.testing.assert_allclose(rows[first][kept], expected[first][kept], rtol=2e-3, atol=1e-5)


def taught_text() -> Taught:
    taught = Taught(TeacherOptions(teacher=2, teacher_weight=0.7, teacher_tokens=4), text(), VOCABULARY, None)
    chance = np.random.default_rng(3)
    for i in range(len(text())):
        taught.tokens[i] = chance.permutation(np.arange(2, VOCABULARY))[:4]
        taught.probs[i] = chance.dirichlet(np.ones(5))[:4]
    return taught


def test_a_run_that_is_interrupted_goes_on_bit_for_bit(tmp_path: Path) -> None:
    training = replace(QUICK, accumulate=2)
    whole, before, _ = trained(RECURRENT, training, teacher=taught_text())

    def interrupt(report: Report) -> None:
        if report.step == 5:
            raise KeyboardInterrupt

    folder = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        trained(RECURRENT, training, teacher=taught_text(), folder=folder, told=interrupt)
    network, after, _ = trained(RECURRENT, training, teacher=taught_text(), folder=folder, resume=True)
    assert before["validation"]["loss"] == after["validation"]["loss"]
    assert numbers(whole) == numbers(network)
    alone, _, _ = trained(RECURRENT, training)
    assert numbers(whole) != numbers(alone)


def test_the_record_names_the_teachers_and_compare_shows_what_is_kept(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text.txt").write_text("\n".join(TEXTS) + "\n")
    flags = ["--width", "8", "--layers", "1", "--context", "8", "--steps", "2", "--batch", "2", "--json"]
    student, alone, teacher = tmp_path / "student", tmp_path / "alone", str(home / "trigram")
    command = ["train", "recurrent", str(tmp_path / "text.txt"), *flags, "--tokenizer", teacher]
    taught = ["--teacher", teacher, "2", "--teacher-weight", "0.4"]
    assert run([*command, "-o", str(alone)]) == 0
    assert run([*command, "-o", str(student), *taught]) == 0
    record = chainrule.load(student).record
    assert record["teacher"] == [teacher, "2"]
    assert record["teacher_weight"] == 0.4
    assert record["data_of_models"]
    assert "teacher" not in chainrule.load(alone).record
    assert run([*command, "-o", str(student), *taught, "--resume"]) == 0  # it is finished
    assert run([*command, "-o", str(student), "--teacher", "2", "--resume"]) == 1
    assert "teacher was" in capsys.readouterr().err
    table = chainrule.compare([student, alone, teacher], tmp_path / "text.txt")
    bits = {row["model"]: row["bits_per_byte"] for row in table.to_records()}
    gain = bits[str(alone)] - bits[teacher]
    share = (bits[str(alone)] - bits[str(student)]) / gain
    assert f"{student}: keeps {share:.0%} of the {gain:.4f} bits per byte that its teacher {teacher} gains" in str(
        table
    )
    [kept] = table.as_json()[0]["kept"]
    assert kept["share"] == pytest.approx(share)
    assert table.as_json()[1]["kept"] == []
    assert f"bits per byte beside its teacher {teacher}" in str(
        chainrule.compare([student, teacher], tmp_path / "text.txt")
    )


def test_adapt_takes_an_ensemble_as_a_teacher(home: Path, tmp_path: Path) -> None:
    lstm = chainrule.load(home / "lstm")
    chainrule.mix([lstm, lstm]).save(tmp_path / "ensemble")  # networks that are read in turns
    adapted = chainrule.adapt(home / "lstm", Lines(TEXTS), training=STEPS, teacher=tmp_path / "ensemble")
    assert adapted.record["teacher"] == [str(tmp_path / "ensemble")]


def refusals(home: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    teacher = {"teacher": home / "trigram"}
    return {
        "other cannot teach this network: their vocabularies have": (
            TINY,
            {"teacher": [home / "trigram", home / "other"]},
        ),
        "for networks that continue texts, not for a model of family masked": (MaskedConfig(), teacher),
        "for networks that continue texts, not for a model of family ngram": (
            NGramConfig(),
            {**teacher, "training": None},
        ),
        "teacher_weight is for a teacher; set teacher, too": (TINY, {"teacher_weight": 0.2}),
        "teacher needs logits of all tokens, but output is adaptive": (
            RecurrentConfig(width=8, layers=1, output="adaptive"),
            teacher,
        ),
        "residual_of and teacher are both given": (TINY, {**teacher, "residual_of": 2}),
        "label_smoothing and teacher are both given": (
            TransformerConfig(width=8, heads=1, layers=1),
            {**teacher, "training": replace(STEPS, label_smoothing=0.1)},
        ),
        "forcing is student, which does not work with teacher": (
            TINY,
            {**teacher, "training": replace(STEPS, forcing="student")},
        ),
        "teacher_weight is 1.5": (TINY, {**teacher, "teacher_weight": 1.5}),
    }


def test_what_cannot_be_taught_is_refused(home: Path) -> None:
    for says, (config, options) in refusals(home).items():
        with pytest.raises(SettingError, match=says.replace("(", r"\(")):
            chainrule.train(Lines(TEXTS), config, **{"training": STEPS, **options})


def test_a_teacher_with_nan_is_refused_by_its_name(home: Path, tmp_path: Path) -> None:
    model = chainrule.load(home / "lstm")
    with torch.no_grad():
        next(iter(model.engine.network.output.parameters())).fill_(torch.nan)
    opened = Teachers(TrainOptions(Lines(TEXTS), teacher=home / "lstm"), TINY)
    opened.known[0] = replace(opened.known[0], model=model)
    with pytest.raises(ModelFormatError, match=r"lstm: the model gives a log-probability of nan"):
        opened.read(model.tokenizer, source_of(Lines(TEXTS)), np.array([5, 6, END], np.int32), None, silent)


def test_a_teacher_that_is_missing_is_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChainruleError):
        chainrule.train(Lines(TEXTS), TINY, training=STEPS, teacher=home / "missing")
    assert run(["train", "recurrent", "text.txt", "-o", "x", "--teacher-weight", "0.2"]) == 2
    assert "--teacher-weight needs --teacher" in capsys.readouterr().err
