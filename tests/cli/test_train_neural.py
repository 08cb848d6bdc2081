"""Networks from the command line: trained, resumed, and used by every verb."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch
from random_networks import refuse_lstm_in_bfloat16

import chainrule as package
from chainrule.cli.train.run_output import TrainingScreen, note_untrained
from chainrule.kinds import CAUSAL_NETWORK, configs_of
from chainrule.neural import device as capabilities
from chainrule.training.reports import Report

NETWORKS = configs_of(CAUSAL_NETWORK)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TINY = ["--tokenizer", "character", "--layers", 1, "--width", 16, "--context", 8, "--batch", 4, "--compile", "no"]
QUICK = [*TINY, "--precision", "float32", "--steps", 4]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    package.set_threads(1)
    torch.set_num_threads(1)
    yield
    package.set_threads(None)
    torch.set_num_threads(before)


@pytest.mark.parametrize("family", NETWORKS)
def test_a_network_is_trained_and_every_verb_uses_it(
    family: str, chainrule, corpus: Path, heldout: Path, tmp_path: Path
) -> None:
    lm = tmp_path / "lm"
    given = [value for value in QUICK if value not in ("--layers", 1)] if family == "bilinear" else QUICK
    result = chainrule("train", family, corpus, "-o", lm, "--valid", heldout, *given)
    assert result.status == 0, result.err
    assert f"{family} model of" in result.out
    assert "bits per byte" in result.out
    assert "step 4 of 4" in result.err
    assert {path.name.split("-")[0] for path in lm.iterdir()} == {*("arrays", "config.json", "README.md", "log.jsonl")}
    told = json.loads((lm / "config.json").read_text())["record"]["validation"]
    found = chainrule("evaluate", lm, heldout, "--json").json
    assert found["bits_per_byte"] == pytest.approx(told["bits_per_byte"], abs=0.1)
    assert f"context:{NETWORKS[family]().memory}" in found["signature"]
    assert len(chainrule("score", lm, heldout).lines) == 102
    assert len(chainrule("next", lm, "a", "--top", 3).lines) == 4
    assert len(chainrule("generate", lm, "a", "-n", 2, "--max-tokens", 5, "--seed", 1).lines) == 2
    assert chainrule("verify", lm).status == 0
    assert "cannot be written as ARPA" in chainrule("convert", lm, tmp_path / "lm.arpa").error
    assert chainrule("convert", lm, tmp_path / "copy").status == 0


@pytest.fixture
def no_quick_bfloat16(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that multiplies four times as slowly in bfloat16, and has no LSTM in it."""
    refuse_lstm_in_bfloat16(monkeypatch)
    monkeypatch.setattr(capabilities, "bfloat16_gain", lambda device: 0.25)
    yield
    capabilities._runs_lstm_in_bfloat16.cache_clear()


SLOW = "bfloat16 is slower than float32 here: matrix products take 4 times as long"
FLOAT32 = "LSTM layers run in float32, since they cannot run in bfloat16"


@pytest.mark.usefixtures("no_quick_bfloat16")
@pytest.mark.parametrize(
    ("family", "precision", "layers", "note"),
    [
        ("recurrent", "bfloat16", ["LSTM"], f"note: {SLOW}\nnote: {FLOAT32}\n"),
        ("transformer", "bfloat16", [], f"note: {SLOW}\n"),
        ("recurrent", "auto", [], None),
    ],
)
def test_where_bfloat16_cannot_be_or_is_slow_that_is_noted_and_recorded(
    family: str, precision: str, layers: list[str], note: str | None, chainrule, corpus: Path, tmp_path: Path
) -> None:
    lm = tmp_path / "lm"
    result = chainrule("train", family, corpus, "-o", lm, *TINY, "--steps", 2, "--precision", precision)
    assert result.status == 0, result.err
    assert (note or "") in result.err
    assert ("float32" in result.err) == (note is not None)
    training = json.loads((lm / "config.json").read_text())["record"]["training"]
    assert (training["bfloat16"], training["float32_layers"]) == (precision == "bfloat16", layers)
    result = chainrule("embed", lm, corpus, "--precision", "bfloat16")
    assert result.status == 0
    assert result.err == (f"note: {SLOW}\nnote: {FLOAT32}\n" if family == "recurrent" else f"note: {SLOW}\n")


@pytest.mark.parametrize("verb", ["masked", "masked-recurrent", "bidirectional"])
def test_a_network_that_sees_both_sides_is_trained_and_its_verbs_use_it(
    verb: str, chainrule, corpus: Path, heldout: Path, tmp_path: Path
) -> None:
    lm = tmp_path / "lm"
    result = chainrule("train", verb, corpus, "-o", lm, "--valid", heldout, *QUICK)
    assert result.status == 0, result.err
    assert "bits per byte" not in result.out + result.err
    scores = chainrule("score", lm, heldout)
    assert len(scores.lines) == 102
    assert "note: these are pseudo-log-likelihoods, not probabilities" in scores.err
    gaps = chainrule("fill", lm, "ka [MASK] vi", "--top", 3).lines
    assert len(gaps) == 4
    assert chainrule("fill", lm, "ka [MASK]", "--json").json[0].keys() == {"token", "probability"}
    everything = chainrule("fill", lm, "ka [MASK]", "--json", "--top", 1000).json
    assert not {"<s>", "</s>"} & {each["token"] for each in everything}  # what a gap can never be
    assert sum(each["probability"] for each in everything) == pytest.approx(1, abs=1e-4)
    (tmp_path / "pairs.jsonl").write_text('{"sentence_good": "ka vi", "sentence_bad": "vi ka zz"}\n')
    judged = chainrule("evaluate", lm, "--minimal-pairs", tmp_path / "pairs.jsonl")
    assert judged.status == 0
    assert "note: by pseudo-log-likelihoods" in judged.err
    assert chainrule("embed", lm, heldout, "-o", tmp_path / "v.npy").status == 0
    assert chainrule("verify", lm).status == 0
    family = "two-sided" if verb == "bidirectional" else verb  # the name in files
    refused = f"a model of family '{family}' fills gaps in texts; this takes one that continues texts"
    for verb in (
        ("evaluate", lm, heldout),
        ("next", lm, "ka"),
        ("generate", lm, "ka"),
    ):
        assert refused in chainrule(*verb).error
    assert "--words is for models that continue texts" in chainrule("score", lm, heldout, "--words").error


def test_gaps_that_cannot_be_filled_are_an_error(chainrule, corpus: Path, model: Path, tmp_path: Path) -> None:
    lm = tmp_path / "lm"
    assert chainrule("train", "bidirectional", corpus, "-o", lm, *QUICK).status == 0
    assert "there is no [MASK] in 'ka vi'" in chainrule("fill", lm, "ka vi").error
    assert "there are 2 masks" in chainrule("fill", lm, "[MASK] ka [MASK]").error
    assert "the mask is empty" in chainrule("fill", lm, "ka", "--mask", "").error
    assert "top is 0" in chainrule("fill", lm, "[MASK]", "--top", 0).error
    assert f"{model}: a model of family 'ngram' continues texts; this takes one that fills gaps" in (
        chainrule("fill", model, "ka [MASK]").error
    )
    refused = chainrule("evaluate", model, "--minimal-pairs", "x", "--pseudo", "original").error
    assert "has no pseudo-log-likelihoods; leave pseudo out" in refused


def test_a_network_goes_on_with_other_text(chainrule, corpus: Path, heldout: Path, model: Path, tmp_path: Path) -> None:
    lm, adapted = tmp_path / "lm", tmp_path / "adapted"
    assert chainrule("train", "bag", corpus, "--document", "file", "-o", lm, *QUICK).status == 0
    rates = ("--learning-rate", "1e-9", "--matrix-learning-rate", "1e-9")
    steps = ("--steps", 2, "--batch", 4, *rates, "--valid-share", 0, "--compile", "no")
    result = chainrule("adapt", lm, heldout, "-o", adapted, *steps, "--json")
    assert result.status == 0, result.err
    assert result.json["start"] == str(lm)
    before, after = package.load(lm), package.load(adapted)
    assert after.document == before.document == "file"
    assert after.tokenizer.vocabulary.tokens() == before.tokenizer.vocabulary.tokens()
    assert after.engine.network.config == before.engine.network.config
    texts = ["ka vi", "vi"]
    assert after.score(texts) == pytest.approx(before.score(texts), abs=1e-3)  # two steps of almost nothing
    again = chainrule("adapt", lm, heldout, "-o", adapted, *steps, "--resume")
    assert (again.status, again.out) == (0, "")
    assert (
        "cannot be trained further on plain text; expected a network"
        in chainrule("adapt", model, heldout, "-o", tmp_path / "x").error
    )
    with pytest.raises(package.SettingError, match="leave config, tokenizer and vectors out"):
        package.train(heldout, package.TransformerConfig(), start=lm)


def test_a_finished_model_is_not_lost_by_mistake_and_checkpoints_are_gone(
    chainrule, corpus: Path, tmp_path: Path
) -> None:
    lm = tmp_path / "lm"
    assert chainrule("train", "recurrent", corpus, "-o", lm, *QUICK).status == 0
    assert "there is a model already" in chainrule("train", "recurrent", corpus, "-o", lm, *QUICK).error
    again = chainrule("train", "recurrent", corpus, "-o", lm, *QUICK, "--overwrite", "--json")
    assert again.json["steps"] == 4


def test_a_size_that_the_minutes_chose_is_said_recorded_and_no_other_setting_later(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {"layers": 1, "width": 8, "context": 4}
    monkeypatch.setattr(package.RecurrentConfig, "sizes", (small,))
    lm = tmp_path / "lm"
    command = ["train", "recurrent", corpus, "-o", lm, "--tokenizer", "character", "--layers", 1, "--minutes", 1e-3]
    result = chainrule(*command)
    assert "size for this time: --width 8, --context 4; to change it, set these options" in result.err
    model = package.load(lm)
    assert model.engine.network.config == package.RecurrentConfig(**small)
    assert {name: model.record["settings"][name] for name in small} == small
    assert "the run has ended" in chainrule(*command, "--resume").err
    assert "width was 8 and is 16" in chainrule(*command, "--width", 16, "--resume").error


def test_a_finished_run_of_a_sampled_output_is_known_by_it(chainrule, corpus: Path, tmp_path: Path) -> None:
    command = ["train", "recurrent", corpus, "-o", tmp_path / "lm", *QUICK, "--output-layer", "sampled"]
    assert chainrule(*command).status == 0
    assert chainrule("info", tmp_path / "lm", "--json").json["record"]["output"] == "sampled"
    assert "the run has ended, after 4 steps" in chainrule(*command, "--resume").err
    assert "output was sampled and is full" in chainrule(*command[:-2], "--resume").error


def test_resuming_a_finished_run_does_nothing_and_says_so(chainrule, corpus: Path, tmp_path: Path) -> None:
    lm = tmp_path / "lm"
    command = ["train", "recurrent", corpus, "-o", lm, *QUICK]
    assert chainrule(*command).status == 0
    before = {path.name: path.read_bytes() for path in lm.iterdir()}
    result = chainrule(*command, "--device", "auto", "--resume")
    assert (result.status, result.out) == (0, "")
    assert f"the run has ended, after 4 steps; {lm} is its model" in result.err
    assert chainrule(*command, "--resume", "--json").json["steps"] == 4
    longer = [*command[:-1], 5]
    assert "the run has ended, with other settings: steps was 4 and is 5. Use" in chainrule(*longer, "--resume").error
    (tmp_path / "other.txt").write_text(corpus.read_text() + "and more\n")
    elsewhere = chainrule("train", "recurrent", tmp_path / "other.txt", "-o", lm, *QUICK, "--resume")
    assert "the run has ended, with other settings: the text differs. Use --overwrite" in elsewhere.error
    cut = ["byte" if each == "character" else each for each in command]
    assert "settings: the tokenizer's kind was character and is byte. Use" in chainrule(*cut, "--resume").error
    other = chainrule("train", "transformer", corpus, "-o", lm, *QUICK, "--resume")
    assert "family was recurrent and is transformer" in other.error
    assert "give one of them" in chainrule(*command, "--resume", "--overwrite").error
    assert {path.name: path.read_bytes() for path in lm.iterdir()} == before


def test_a_run_that_replaces_a_model_can_be_gone_on_with(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainrule.training.trainer import Trainer

    lm = tmp_path / "lm"
    command = ["train", "recurrent", corpus, "-o", lm, *QUICK, "--save-every", 1]
    chainrule(*command)
    old = (lm / "config.json").read_bytes()

    def interrupted(trainer: Trainer, steps: int) -> None:
        if trainer.step == 2:
            raise KeyboardInterrupt
        run(trainer, steps)

    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", interrupted)
    assert chainrule(*command, "--overwrite").status != 0
    monkeypatch.undo()
    assert (lm / "config.json").read_bytes() == old
    resumed = chainrule(*command, "--resume")
    assert resumed.status == 0
    assert " s before the run was resumed" in resumed.out
    record = json.loads((lm / "config.json").read_bytes())["record"]
    assert record["seconds"] > record["earlier_seconds"] > 0


def test_an_unfinished_run_is_no_model_yet(
    chainrule, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chainrule.training.trainer import Trainer

    def interrupted(trainer: Trainer, steps: int) -> None:
        if trainer.step == 2:
            raise KeyboardInterrupt
        run(trainer, steps)

    run = Trainer.run
    monkeypatch.setattr(Trainer, "run", interrupted)
    chainrule("train", "recurrent", corpus, "-o", tmp_path / "lm", *QUICK, "--save-every", 1)
    for verb in ("evaluate", "score"):
        told = chainrule(verb, tmp_path / "lm", corpus).error
        assert "has not ended, so there is no model yet; repeat it with --resume" in told


def test_what_is_refused_leaves_no_folder(chainrule, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "short.txt").write_text("ab\n")
    folder = tmp_path / "new" / "lm"
    for text, more in [
        (tmp_path / "empty.txt", []),
        (tmp_path / "short.txt", []),
        (corpus, ["--valid", tmp_path / "empty.txt"]),
        (corpus, ["--device", "cuda:97"]),
    ]:
        assert chainrule("train", "recurrent", text, "-o", folder, *QUICK, *more).status == 1
        assert not folder.parent.exists(), (text, more)
    long = [value for value in QUICK if value != "--context" and value != 8]
    assert chainrule("train", "recurrent", corpus, "-o", folder, *long, "--context", 100_000).status == 1
    assert not folder.parent.exists()


def test_a_preset_in_python() -> None:
    config = package.preset("gpt2", layers=2)
    assert (config.positions, config.layers) == ("learned", 2)
    with pytest.raises(package.SettingError, match="no preset 'gpt3'; expected one of vaswani, gpt2"):
        package.preset("gpt3")
    with pytest.raises(package.SettingError, match="has no depth; it has width, context, layers"):
        package.preset("gpt2", depth=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", 3, "--minutes", 1], "--steps and --minutes are both given"),
        (["--heads", 3], "cannot be divided among 3 heads"),
        (["--context", 100_000], "fewer than a row of 100,000"),
        (["--valid-share", 0.9], "--valid-share is 0.9"),
        (["--device", "cuda:97"], "device 'cuda:97' cannot be used here"),
        (["--learning-rate", -1], "--learning-rate is -1"),
    ],
)
def test_what_cannot_be_is_one_clear_line(
    arguments: list[object], message: str, chainrule, corpus: Path, tmp_path: Path
) -> None:
    settings = [] if "--steps" in arguments else ["--steps", 2]
    result = chainrule(
        *("train", "transformer", corpus, "-o", tmp_path / "lm", "--tokenizer", "character"), *settings, *arguments
    )
    assert message in result.error
    assert result.status == 1


def test_a_text_that_is_too_short_to_validate_on_is_an_error(chainrule, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("ab\n")
    told = chainrule("train", "recurrent", tmp_path / "short.txt", "-o", tmp_path / "lm", *QUICK).error
    assert "leaves nothing to validate on" in told
    assert "--valid-share 0" in told


def test_a_preset_is_changed_by_flags(chainrule, corpus: Path, tmp_path: Path) -> None:
    lm = tmp_path / "lm"
    chainrule("train", "transformer", corpus, "-o", lm, "--preset", "gpt2", "--heads", 2, "--no-tied", *QUICK)
    network = json.loads((lm / "config.json").read_text())["settings"]["network"]
    assert (network["positions"], network["tied"], network["heads"]) == ("learned", False, 2)


def test_settings_of_networks_are_refused_for_what_is_counted(corpus: Path) -> None:
    with pytest.raises(package.SettingError, match="a model of family ngram is estimated from counts"):
        package.train(corpus, training=package.TrainingConfig(steps=1))


@pytest.mark.parametrize(
    ("step", "advice"),
    [
        (6, "validation was best after step 6 of 13, then the network overfitted its text; train on more text"),
        (7, "the network has learned nothing from context yet; train it longer"),
    ],
)
def test_a_network_that_learned_no_context_is_told_what_helps(step: int, advice: str, capsys) -> None:
    validation = {"loss": 5.4, "unigram_loss": 5.35, "step": step}
    note_untrained({"steps": 13, "validation": validation})
    told = capsys.readouterr().err
    assert "no better than token frequencies alone, 5.3500 nats" in told
    assert advice in told
    note_untrained({"steps": 13, "validation": validation | {"loss": 5.3}})
    assert not capsys.readouterr().err


def test_adapt_shows_the_loss_before_its_first_step(chainrule, corpus: Path, heldout: Path, tmp_path: Path) -> None:
    net, adapted = tmp_path / "net", tmp_path / "adapted"
    assert chainrule("train", "recurrent", corpus, "-o", net, *QUICK).status == 0
    # A step that changes nothing: the loss before it is the loss after it, and about that of evaluate.
    still = ["--steps", 1, "--learning-rate", 1e-12, "--optimiser", "sgd", "--valid", heldout]
    result = chainrule("adapt", net, corpus, "-o", adapted, *still)
    validation = package.load(adapted).record["validation"]
    before = validation["before_learning"]
    assert before["loss"] == pytest.approx(validation["loss"], abs=1e-6)
    assert before["loss"] == pytest.approx(math.log(package.load(net).perplexity(heldout)), rel=0.1)
    first = next(line for line in result.err.splitlines() if line.startswith("step"))
    assert first.startswith(
        f"step 0 of 1  validation {before['loss']:.4f}, {before['bits_per_byte']:.4f} bits per byte"
    )
    assert "rate" not in first
    assert f"before the first step: {before['loss']:.4f} nats a token" in result.out
    reports = [json.loads(line) for line in (adapted / "log.jsonl").read_text().splitlines()]
    assert [report["valid_loss"] for report in reports if report.get("step") == 0 and "valid_loss" in report] == [
        before["loss"]
    ]


def test_adapt_of_minutes_reads_as_much_before_as_later(chainrule, corpus: Path, tmp_path: Path) -> None:
    net, adapted = tmp_path / "net", tmp_path / "adapted"
    assert chainrule("train", "recurrent", corpus, "-o", net, *QUICK).status == 0
    assert chainrule("adapt", net, corpus, "-o", adapted, "--minutes", 0.01).status == 0
    validation = package.load(adapted).record["validation"]
    assert validation["before_learning"]["read_tokens"] == validation["while_learning"]["read_tokens"]


def test_no_line_comes_of_the_time_before_training(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """On a slow machine, the first step was printed, since the text had taken so long to read."""
    now = [0.0]
    monkeypatch.setattr("chainrule.cli.train.run_output.time", SimpleNamespace(monotonic=lambda: now[0]))
    screen = TrainingScreen(lambda: None)
    report = {"steps": 9, "tokens": 1, "epoch": 1.0, "loss": 1.0, "gradient": 1.0, "rate": 1.0, "seconds": 1.0}
    for step, second in ((1, 100.0), (2, 101.0), (3, 131.0)):
        now[0] = second
        screen(Report(step=step, tokens_per_second=1.0, peak_share=0.1, memory=None, **report))
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["3"]


def test_a_report_in_one_line() -> None:
    report = Report(
        step=1200,
        steps=2000,
        tokens=10,
        epoch=0.5,
        loss=1.8344,
        gradient=0.3,
        rate=0.52,
        seconds=10.0,
        tokens_per_second=81_000.4,
        peak_share=0.341,
        memory=212_000_000,
        seconds_left=41.0,
        valid_loss=1.886,
        bits_per_byte=1.886 / math.log(2),
        is_best=True,
    )
    assert str(report) == (
        "step 1,200 of 2,000  loss 1.8344  validation 1.8860, 2.7209 bits per byte *  81,000 tokens/s  34% of peak  "
        "rate 0.520  0.21 GB  0:41 left"
    )


def test_a_network_begins_with_vectors_of_a_file(chainrule, corpus: Path, tmp_path: Path) -> None:
    given = [value for value in QUICK if value not in ("--tokenizer", "character")]
    vectors, lm = tmp_path / "glove.txt", tmp_path / "lm"
    first, second, *_ = corpus.read_text().split()
    vectors.write_text(f"{first} {'0.5 ' * 16}\n{second} {'1 ' * 16}\nzyzzyva {'2 ' * 16}\n")
    begin = ["train", "feedforward", corpus, "-o", lm, *given, "--vectors", vectors]
    result = chainrule(*begin, "--fixed-vectors")
    assert result.status == 0, result.err
    assert f"note: {vectors} has " in result.err
    model = package.load(lm)
    row = model.embedder.static_vectors()[model.tokenizer.vocabulary.id_of(first)]
    assert row.tolist() == [0.5] * 16
    assert model.record["vectors"] == f"{vectors}, fixed"
    assert chainrule(*begin, "--fixed-vectors", "--resume").status == 0
    assert f"vectors was {vectors}, fixed and is {vectors}" in chainrule(*begin, "--resume").error
    assert "fixed-vectors is given without" in chainrule(*begin[:-2], "--fixed-vectors", "--overwrite").error
    vectors.write_text(f"{first} 1 2 3\n")
    wrong = chainrule(*begin, "--overwrite")
    assert wrong.status == 1
    assert "its vectors have 3 numbers, those of the network 16; set --embedding-width 3" in wrong.error
    assert "missing.txt: cannot be read" in chainrule(*begin[:-1], tmp_path / "missing.txt", "--overwrite").error
