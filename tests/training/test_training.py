"""Whole runs on a text with something to learn: every optimiser, schedule, output and budget, and what goes wrong."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from training_runs import QUICK, RECURRENT, TRANSFORMER, VOCABULARY, numbers, text, trained, validation

from chainrule.errors import EstimationError, SettingError, TextError
from chainrule.features.seq2seq.objective import with_pair_defaults
from chainrule.neural.build import build
from chainrule.neural.config import FeedforwardConfig, RecurrentConfig, TransformerConfig
from chainrule.neural.language_model import NeuralModel
from chainrule.protocol import END
from chainrule.training import device as machine
from chainrule.training.config import TrainingConfig
from chainrule.training.defaults import recipe_for, with_stream_defaults
from chainrule.training.job import Validation
from chainrule.training.objectives import next_token
from chainrule.training.trainer import Trainer

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.neural.config import NetworkConfig

UNIFORM = math.log(VOCABULARY - 1)
LEARNING = replace(QUICK, steps=60, validate_every=30, save_every=None, learning_rate=0.02, warm_up=5)


@pytest.mark.parametrize(
    "training",
    [
        replace(LEARNING, optimiser="muon"),
        replace(LEARNING, optimiser="adamw", schedule="cosine"),
        replace(LEARNING, optimiser="sgd", schedule="linear", learning_rate=0.3, momentum=0.9),
        replace(LEARNING, optimiser="asgd", schedule="plateau", learning_rate=0.3, validate_every=10, patience=1),
        replace(LEARNING, ema=0.9, weight_decay=0.1, accumulate=2),
        replace(LEARNING, precision="bfloat16"),
        replace(LEARNING, forcing="scheduled"),
    ],
    ids=["muon", "adamw", "sgd", "asgd", "average", "bfloat16", "scheduled"],
)
def test_a_network_learns(training: TrainingConfig) -> None:
    _, record, told = trained(RECURRENT, training)
    assert record["validation"]["loss"] < 0.75 * UNIFORM
    assert told[-1].valid_loss is not None
    assert record["tokens_seen"] == 60 * 4 * RECURRENT.context


def test_a_transformer_that_attends_within_a_window_of_a_stream_learns() -> None:
    """It has a cache where others have a state, which training cannot carry from step to step."""
    _, record, _ = trained(replace(TRANSFORMER, window=3), LEARNING)
    assert record["validation"]["loss"] < 0.75 * UNIFORM


@pytest.mark.parametrize("output", ["adaptive", "sampled", "nce"])
def test_outputs_for_large_vocabularies_learn_and_are_validated_in_full(output: Any) -> None:
    own = {"adaptive": {"cutoffs": (5,)}, "sampled": {"noise_samples": 6}, "nce": {"noise_samples": 6}}[output]
    config = replace(TRANSFORMER, output=output, **own)
    network, record, _ = trained(config, replace(LEARNING, steps=120))
    found = np.mean([-row for row in NeuralModel(network).score([validation().stream])[0]])
    assert record["validation"]["loss"] < 0.85 * UNIFORM
    assert found < 0.85 * UNIFORM
    assert record.get("output") == (None if output == "adaptive" else output)
    assert network.config.output == ("adaptive" if output == "adaptive" else "full")


def test_student_forcing_is_for_recurrent_networks() -> None:
    _, record, _ = trained(RECURRENT, replace(QUICK, forcing="student"))
    assert record["validation"]["loss"] < UNIFORM
    with pytest.raises(SettingError, match="forcing is student, which is for recurrent networks"):
        trained(TRANSFORMER, replace(QUICK, forcing="student"))


def losses(config: NetworkConfig, training: TrainingConfig) -> list[float]:
    return [report.loss for report in every_report(config, training)]


def test_the_regularisation_of_states_is_learned_but_no_part_of_the_loss() -> None:
    plain, regularised = (
        losses(replace(RECURRENT, activation_regularisation=alpha), replace(QUICK, steps=3)) for alpha in (0.0, 2.0)
    )
    assert regularised[0] == plain[0]
    assert regularised[1:] != plain[1:]


def every_report(config: NetworkConfig, training: TrainingConfig) -> list[Any]:
    return trained(config, replace(training, validate_every=1))[2]


@pytest.mark.parametrize("config", [RECURRENT, TRANSFORMER], ids=["recurrent", "transformer"])
def test_a_step_in_parts_is_the_same_step(config: NetworkConfig) -> None:
    config = replace(
        config, dropout=0.0, **({"output_dropout": 0.0} if config.__class__ is RECURRENT.__class__ else {})
    )
    np.testing.assert_allclose(losses(config, QUICK), losses(config, replace(QUICK, accumulate=4)), rtol=0, atol=1e-5)


def test_the_first_loss_is_that_of_the_network_on_the_first_rows() -> None:
    """Of a network that is made anew with the same seed, on rows that are cut out by hand."""
    config = replace(RECURRENT, dropout=0.0, output_dropout=0.0)
    [first, *_] = losses(config, QUICK)
    torch.manual_seed(0)
    network = build(config, VOCABULARY)
    stream = torch.from_numpy(text()).long()
    rows = torch.stack([stream[place : place + 6] for place in (0, 100, 200, 300)])
    before = torch.stack([stream[[place - 1]] for place in (0, 100, 200, 300)])
    hidden, _ = network(torch.cat([before, rows[:, :-1]], 1))
    assert first == pytest.approx(network.output.loss(hidden, rows).item() / 24, abs=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_rows_go_on_where_they_ended_but_for_those_that_begin_anew(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of weights that hardly move, so that the losses can be computed from what the rows have read, cut out by hand."""
    monkeypatch.setattr(next_token, "_RESET_CHANCE", share)
    config = replace(RECURRENT, dropout=0.0, output_dropout=0.0)
    training = replace(QUICK, optimiser="adamw", learning_rate=1e-30)
    torch.manual_seed(0)
    network = build(config, VOCABULARY)
    stream = torch.from_numpy(text()).long()
    begun = [0, 100, 200, 300]  # where each row last began
    for step, found in enumerate(losses(config, training)):
        anew = np.random.default_rng([training.seed, step]).random(4) < share
        here = [place + 6 * step for place in (0, 100, 200, 300)]
        begun = [now if is_anew else before for now, before, is_anew in zip(here, begun, anew, strict=True)]
        nats = 0.0
        for first, place in zip(begun, here, strict=True):
            hidden, _ = network(stream[torch.arange(first - 1, place + 5)][None])
            nats += network.output.loss(hidden[:, -6:], stream[place : place + 6][None]).item()
        assert found == pytest.approx(nats / 24, abs=1e-6)


def test_the_best_weights_are_the_model() -> None:
    wild = replace(QUICK, steps=30, validate_every=3, matrix_learning_rate=9.0, learning_rate=3.0, warm_up=100)
    network, record, told = trained(TRANSFORMER, wild)
    best = min((report.valid_loss, report.step) for report in told if report.valid_loss is not None)
    assert (record["validation"]["loss"], record["validation"]["step"]) == best
    assert best[1] < 30
    assert -np.mean(NeuralModel(network).score([validation().stream[:8]])[0]) < 2 * UNIFORM


def test_early_stopping_ends_after_so_many_validations_without_a_better_one() -> None:
    wild = replace(QUICK, steps=500, validate_every=2, matrix_learning_rate=3.0, learning_rate=2.0, early_stopping=3)
    _, record, reports = trained(TRANSFORMER, wild)
    best = record["validation"]["step"]
    assert record["steps"] == best + 6
    early = f"training ends early: 3 validations in a row were no better than the one after step {best}"
    assert [report.note for report in reports if report.note] == [early]


def test_the_same_seed_gives_the_same_network() -> None:
    assert numbers(trained(TRANSFORMER)[0]) == numbers(trained(TRANSFORMER)[0])
    assert numbers(trained(TRANSFORMER)[0]) != numbers(trained(TRANSFORMER, replace(QUICK, seed=1))[0])


@pytest.mark.parametrize(
    ("budget", "steps"), [({"steps": 7}, 7), ({"tokens": 100}, 4), ({"epochs": 1.0}, 13), ({"epochs": 0.01}, 1)]
)
def test_budgets(budget: dict[str, Any], steps: int) -> None:
    """A step has 4 rows of 8 tokens; the text has 400."""
    _, record, _ = trained(TRANSFORMER, replace(QUICK, **{"steps": None, **budget}))
    assert record["steps"] == steps


def test_a_text_on_the_disk_is_as_good_as_one_in_memory(tmp_path: Path) -> None:
    text().tofile(tmp_path / "ids")
    mapped = np.memmap(tmp_path / "ids", np.int32, "r+")
    assert numbers(trained(TRANSFORMER, stream=np.asarray(mapped))[0]) == numbers(trained(TRANSFORMER)[0])


@pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT])
def test_rows_may_be_shorter_than_the_context(config: NetworkConfig) -> None:
    """As open models need it, whose contexts have thousands of tokens; the network keeps its own."""
    network, record, _ = trained(config, replace(QUICK, row_tokens=3, steps=2), stream=text(5))
    assert record["tokens_seen"] == 2 * 3 * 4
    assert network.config.context == config.context
    longer = config.context + 1
    with pytest.raises(SettingError, match=f"row_tokens is {longer}, but the network's context is {longer - 1}"):
        trained(config, replace(QUICK, row_tokens=longer))


@pytest.mark.parametrize(("name", "value"), [("noise_samples", 2), ("noise_power", 0.5)])
def test_noise_is_for_outputs_that_learn_by_samples(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=f"{name} is for an output of sampled or nce, and this one is full"):
        trained(RecurrentConfig(layers=1, width=12, context=6, **{name: value}))


def test_rows_of_pairs_have_no_given_length() -> None:
    with pytest.raises(SettingError, match="row_tokens is for networks that learn from running text; leave it out"):
        with_pair_defaults(replace(QUICK, row_tokens=4))


def test_a_text_shorter_than_a_context_is_an_error() -> None:
    with pytest.raises(TextError, match=r"the text has 7 tokens, fewer than a row of 8; .* or set row_tokens"):
        trained(TRANSFORMER, stream=text(7))
    trained(TRANSFORMER, stream=text(8))


@pytest.mark.parametrize("make", [FeedforwardConfig, RecurrentConfig, TransformerConfig])
def test_a_context_that_nobody_chose_fits_a_short_text(make: type[NetworkConfig], tmp_path: Path) -> None:
    network, record, told = trained(make(width=16), stream=text(30), folder=tmp_path)
    assert (network.config.context, record["tokens_seen"]) == (30, QUICK.steps * QUICK.batch * 30)
    assert "context=30, since the text has no more tokens" in next(one.note for one in told if one.note).splitlines()
    again, _, told = trained(make(width=16), stream=text(30), folder=tmp_path, resume=True)
    assert again.config == network.config
    assert not any(report.note for report in told)
    assert trained(make(width=16), replace(QUICK, row_tokens=10), stream=text(30))[0].config.context == make().context


def test_a_window_longer_than_the_text_is_an_error() -> None:
    with pytest.raises(TextError, match="the text has 400 tokens, fewer than a window of 401"):
        trained(FeedforwardConfig(window=401, context=6))


def test_an_empty_text_to_validate_on_is_an_error() -> None:
    with pytest.raises(TextError, match="the text to validate on is empty"):
        trained(TRANSFORMER, validation=Validation(stream=np.empty(0, np.int32), bytes=0))


def test_a_text_may_be_learnt_without_validation() -> None:
    network, record, told = trained(TRANSFORMER, validation=None)
    assert "validation" not in record
    assert told[-1].step == 12
    assert not network.training


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_loss_that_is_no_number_stops_and_keeps_the_checkpoint_before(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Trainer._step

    def spoilt(self: Trainer) -> None:
        if self.step == 7:
            with torch.no_grad():
                next(iter(self.network.output.parameters())).fill_(math.nan if what == "loss" else 1e38)
        step(self)

    monkeypatch.setattr(Trainer, "_step", spoilt)
    with pytest.raises(
        EstimationError,
        match=r"at step 8, after 168 tokens; .*checkpoint of step 6 in .* is whole, but resume=True .*overwrite=True",
    ):
        trained(RECURRENT, folder=tmp_path)
    monkeypatch.undo()
    assert numbers(trained(RECURRENT, folder=tmp_path, resume=True)[0]) == numbers(trained(RECURRENT)[0])


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_too_little_memory_says_what_to_lower(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Trainer) -> None:
        raise error

    monkeypatch.setattr(Trainer, "_step", full)
    with pytest.raises(SettingError, match=r"does not hold a step of 4 rows of 8 tokens; raise accumulate .*batch"):
        trained(TRANSFORMER)


def test_a_batch_that_cannot_be_divided_is_an_error() -> None:
    with pytest.raises(SettingError, match="batch is 4, which cannot be split into accumulate=3 equal parts"):
        TrainingConfig(batch=4, accumulate=3)


def test_a_batch_that_nobody_chose_is_rounded_up_to_even_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(QUICK, batch=None, steps=1, accumulate=3)
    own = replace(TRANSFORMER, context=64)
    assert trained(own, asked)[1]["tokens_seen"] == 33 * 64  # 2,048 tokens would be 32 rows
    monkeypatch.setenv("WORLD_SIZE", "5")
    assert recipe_for(own, replace(asked, optimiser="muon")).batch == 45


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 1, "minutes": 1.0}, "steps and minutes are both given"),
        ({"steps": 0}, "steps is 0"),
        ({"minutes": 0.0}, "minutes is 0.0; expected more than 0"),
        ({"minutes": -1.0}, "minutes is -1.0; expected more than 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0; expected more than 0"),
        ({"optimiser": "adam"}, "optimiser is 'adam'; expected muon, adamw"),
        ({"ema": 1.0}, "ema is 1.0"),
        ({"valid_share": 0.9}, "valid_share is 0.9"),
        ({"epochs": math.nan}, "epochs is nan"),
    ],
)
def test_settings_that_cannot_be_are_errors(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        TrainingConfig(**settings)


def test_a_device_that_is_not_there_is_an_error() -> None:
    with pytest.raises(SettingError, match="device 'cuda:97' cannot be used here"):
        trained(TRANSFORMER, replace(QUICK, device="cuda:97"))


def test_where_nothing_can_be_compiled_all_goes_on_and_the_log_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(network: Any) -> Any:
        def forward(*given: Any) -> Any:
            raise RuntimeError("no compiler here\nand more")

        return forward

    monkeypatch.setattr(torch, "compile", failing)
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/usr/bin/g++")
    network, _, told = trained(TRANSFORMER, replace(QUICK, compile="yes"), folder=tmp_path)
    assert told[0].note == "torch.compile failed, so the network is not compiled: no compiler here"
    assert numbers(network) == numbers(trained(TRANSFORMER)[0])
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert {"event": "not compiled", "because": "no compiler here"} in lines
    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    with pytest.raises(SettingError, match=r"there is no C\+\+ compiler"):
        trained(TRANSFORMER, replace(QUICK, compile="yes"))


def test_the_log_has_every_step_of_a_short_run(tmp_path: Path) -> None:
    _, _, told = trained(TRANSFORMER, folder=tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines[1:]] == list(range(1, 13))
    assert [line["step"] for line in lines if line.get("valid_loss")] == [5, 10, 12]
    last = told[-1]
    assert last.bits_per_byte == pytest.approx(last.valid_loss / math.log(2))
    assert 0 < last.peak_share <= 1
    assert last.tokens == 12 * 32


def test_a_step_is_never_quicker_than_the_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chainrule.training.run.peak_speed", lambda machine: 1.0)
    assert trained(TRANSFORMER)[2][-1].peak_share <= 1


def test_tensorboard_that_is_not_installed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SettingError, match="tensorboard is not installed"):
        trained(TRANSFORMER, replace(QUICK, tensorboard=True), folder=tmp_path)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"optimiser": "adamw"}, "a lower learning_rate, a longer warm_up (now 2), or clip=0.5"),
        ({"optimiser": "sgd", "clip": 0.2}, "a lower learning_rate, a longer warm_up (now 0), or clip=0.1"),
        ({"optimiser": "muon", "clip": 0.0}, "learning_rate and matrix_learning_rate, a longer warm_up"),
    ],
)
def test_a_loss_that_is_no_number_names_the_settings_of_the_optimiser(
    settings: dict[str, Any], advice: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    step = Trainer._step

    def broken(self: Trainer) -> None:
        with torch.no_grad():
            next(iter(self.network.output.parameters())).fill_(math.nan)
        step(self)

    monkeypatch.setattr(Trainer, "_step", broken)
    with pytest.raises(EstimationError, match=rf"{re.escape(advice)}.*There is no checkpoint yet") as told:
        trained(RECURRENT, replace(QUICK, **settings), folder=tmp_path)
    assert ("matrix_" in str(told.value)) == (settings["optimiser"] == "muon")


def test_tensorboard_gets_what_the_log_gets_and_drops_the_steps_that_a_resumed_run_repeats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writers: list[Writer] = []

    class Writer:
        """Stands for TensorBoard's."""

        def __init__(self, folder: str, purge_step: int) -> None:
            self.folder, self.purge_step, self.scalars, self.is_open = folder, purge_step, [], True
            writers.append(self)

        def add_scalar(self, name: str, value: float, step: int) -> None:
            self.scalars.append((name, value, step))

        def close(self) -> None:
            self.is_open = False

    def ending(report: Any) -> None:
        if report.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    with pytest.raises(KeyboardInterrupt):
        trained(TRANSFORMER, replace(QUICK, tensorboard=True), folder=tmp_path, told=ending)
    trained(TRANSFORMER, replace(QUICK, tensorboard=True), folder=tmp_path, resume=True)
    assert [(each.folder, each.purge_step, each.is_open) for each in writers] == [
        (str(tmp_path / "tensorboard"), 1, False),
        (str(tmp_path / "tensorboard"), 6, False),
    ]
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    for name in ("loss", "valid_loss", "rate"):
        written = [(line[name], line["step"]) for line in lines if name in line]
        assert [scalar[1:] for each in writers for scalar in each.scalars if scalar[0] == name] == written


@pytest.mark.parametrize(
    "config",
    [replace(TRANSFORMER, dropout=0.0), replace(RECURRENT, dropout=0.0, output_dropout=0.0)],
    ids=["transformer", "recurrent"],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo looks at it
def test_a_compiled_network_learns_the_same(config: NetworkConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = losses(config, QUICK)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # traced, but by no C++ compiler
    monkeypatch.setattr(machine.shutil, "which", lambda name: "/usr/bin/g++")
    reports = every_report(config, replace(QUICK, compile="yes"))
    assert [report.loss for report in reports] == pytest.approx(expected, rel=1e-5)
    assert [report.note for report in reports] == [None] * 12


def test_a_note_warns_where_documents_are_much_shorter_than_the_context() -> None:
    lines = np.tile(np.array([4, 5, 6, 1], np.int32), 100)
    lines[lines == 1] = END
    note = trained(replace(TRANSFORMER, context=16), stream=lines)[2][0].note or ""
    assert "documents have 4 tokens on average, the context 16" in note
    assert "set document='file' to make a file one document" in note
    assert trained(replace(TRANSFORMER, context=12), stream=lines)[2][0].note is None


def test_wide_recurrent_networks_learn_by_adamw_in_few_minutes() -> None:
    wide = replace(RECURRENT, width=512)
    chosen = [
        with_stream_defaults(config, training).optimiser
        for config in (wide, RECURRENT, TRANSFORMER)
        for training in (TrainingConfig(minutes=0.5), TrainingConfig(), TrainingConfig(steps=3))
    ]
    assert chosen == ["adamw", *["muon"] * 8]
    assert with_stream_defaults(wide, TrainingConfig(minutes=0.5, optimiser="muon")).optimiser == "muon"


@pytest.mark.parametrize(("width", "tokens"), [(256, 2048), (257, 3072)])
def test_wide_recurrent_networks_learn_vectors_at_the_rate_of_narrow_ones(width: int, tokens: int) -> None:
    recipe = recipe_for(replace(RECURRENT, width=width, context=64), TrainingConfig(optimiser="muon"))
    assert (recipe.rate, recipe.batch * 64) == (0.02, tokens)
