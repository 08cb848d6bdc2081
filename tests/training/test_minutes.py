"""Minutes are minutes: validation, checkpoints and slow machines within them. The clock is simulated."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections import Counter
from dataclasses import replace
from math import log
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from samples import sampled
from training_runs import QUICK, RECURRENT, TRANSFORMER, VOCABULARY, numbers, text, trained

from chainrule.models import run as api_run
from chainrule.neural.config import MaskedConfig
from chainrule.training import run as run_module
from chainrule.training import sizes, timetable
from chainrule.training import trainer as trainer_module
from chainrule.training.batches import blocks, lanes
from chainrule.training.checkpoint import Checkpoints
from chainrule.training.job import Validation
from chainrule.training.objectives.masked import MaskedObjective
from chainrule.training.objectives.next_token import NextToken
from chainrule.training.timetable import batch_choices, choose_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.training.reports import Report

MINUTES = replace(QUICK, steps=None, minutes=1.0, validate_every=None, save_every=None)
LONG = Validation(stream=text(6000, seed=2), bytes=6000)


class Machine:
    """A machine whose clock moves by what is done on it: seconds of a row, of a token validated on, of a checkpoint."""

    def __init__(self, row: float, token: float = 0.0, save: float = 0.0, fixed_seconds: float = 0.0) -> None:
        self.row, self.token, self.save, self.fixed_seconds = row, token, save, fixed_seconds
        self.now, self.between = 0.0, 0.0
        self.slower: Callable[[float], float] = lambda now: 1.0

    def work(self, seconds: float) -> None:
        self.now += seconds * self.slower(self.now)

    def installed(self, monkeypatch: pytest.MonkeyPatch) -> Machine:
        clock = SimpleNamespace(
            monotonic=lambda: self.now, perf_counter=lambda: self.now, process_time=lambda: self.now
        )
        for module in (run_module, sizes, timetable, trainer_module):
            monkeypatch.setattr(module, "time", clock)
        for objective in (NextToken, MaskedObjective):
            self._slow_down(monkeypatch, objective)
        save = Checkpoints.save

        def saving(checkpoints: Checkpoints, *arguments: Any) -> None:
            self.work(self.save)
            self.between += self.save
            save(checkpoints, *arguments)

        monkeypatch.setattr(Checkpoints, "save", saving)
        return self

    def _slow_down(self, monkeypatch: pytest.MonkeyPatch, objective: type[Any]) -> None:
        loss, validated = objective.loss, objective.validate

        def losing(own: Any, number: int, part: Any, *more: Any) -> Any:
            self.work(self.fixed_seconds + self.row * len(part[0]))
            return loss(own, number, part, *more)

        def validating(own: Any, tokens: int) -> Any:
            self.work(self.token * tokens)
            self.between += self.token * tokens
            return validated(own, tokens)

        monkeypatch.setattr(objective, "loss", losing)
        monkeypatch.setattr(objective, "validate", validating)


MASKED = MaskedConfig(layers=1, width=16, heads=2, context=8)


@pytest.mark.parametrize(
    "config",
    sampled([TRANSFORMER, RECURRENT, MASKED], [TRANSFORMER]),
    ids=["transformer", "recurrent", "masked"],
)
@pytest.mark.parametrize(
    ("row", "token", "save"),
    [(0.1, 0.1 / 8 / 3, 0.0), (0.1, 0.1 / 8, 0.2), (0.3, 0.3 / 8 / 3, 0.4), (0.1, 60 / 6000, 0.0)],
    ids=["usual", "slow to validate and save", "slow", "validation takes all minutes"],
)
def test_a_run_takes_its_minutes(
    config: Any, row: float, token: float, save: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(row, token, save).installed(monkeypatch)
    _, record, _ = trained(config, MINUTES, validation=LONG, folder=tmp_path)
    assert 54 < machine.now < 63
    assert machine.between <= 7
    assert record["run_seconds"] == pytest.approx(machine.now)
    assert record["validation"]["text_tokens"] == 6000


def test_a_short_text_is_read_forty_times_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 x 40 tokens are 50 steps of 4 x 8, of 0.4 s each. A masked network masks others each time, so it goes on."""
    machine = Machine(0.1).installed(monkeypatch)
    monkeypatch.setattr(timetable, "_FEW", 5)
    _, record, told = trained(TRANSFORMER, MINUTES, stream=text(40))
    assert record["steps"] == 50
    assert machine.now == pytest.approx(20, abs=1)
    assert any(
        "the run ends after 40 passes over the text, before the minutes do" in (each.note or "") for each in told
    )
    assert trained(MASKED, MINUTES, stream=text(40))[1]["steps"] > 100


def test_few_passes_are_no_fewer_than_a_thousand_steps() -> None:
    objective = SimpleNamespace(most_passes=40.0, epoch=5000, tokens=lambda steps: 100 * steps)
    assert timetable.most_steps(cast("Any", objective)) == 2000
    objective.epoch = 2000
    assert timetable.most_steps(cast("Any", objective)) == 1000


@pytest.mark.parametrize(
    ("token", "save", "steps"), [(0.01, 0.0, 40), (0.0, 0.3, 146)], ids=["slow to validate", "slow to save"]
)
def test_who_validates_after_each_step_has_fewer_steps(
    token: float, save: float, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of 0.4 s. With a second of validation after each, and 3 s at the end, 57 s / 1.4 s = 40 steps.

    A checkpoint of 0.3 s every 15 s, and the model, leave 58.5 s / 0.4 s = 146 steps.
    """
    machine = Machine(0.1, token, save).installed(monkeypatch)
    training = replace(MINUTES, validate_every=1, valid_sample=100)
    _, record, _ = trained(TRANSFORMER, training, validation=LONG, folder=tmp_path)
    assert record["steps"] == pytest.approx(steps, rel=0.04)
    assert 54 < machine.now < 63


def test_the_time_of_the_compiler_is_not_that_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step takes 40 of the 60 s; 50 of 0.4 s fit what is left."""
    machine = Machine(0.1).installed(monkeypatch)
    machine.slower = lambda now: 100.0 if now == 0 else 1.0
    machine_for = run_module.machine_for
    monkeypatch.setattr(run_module, "machine_for", lambda training: replace(machine_for(training), compiled=True))
    monkeypatch.setattr(run_module, "compile_or_fall_back", lambda network, tell: network)
    _, record, _ = trained(TRANSFORMER, MINUTES, validation=LONG)
    assert record["steps"] == pytest.approx(51, abs=2)
    assert 58 < machine.now < 62


@pytest.mark.parametrize("slower", [lambda now: 1 + (now > 30), lambda now: 2 - (now > 20), lambda now: 1 + now % 1])
def test_neighbours_that_come_and_go_cost_steps_and_not_minutes(
    slower: Callable[[float], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(0.1, 0.002).installed(monkeypatch)
    machine.slower = slower
    _, _, told = trained(TRANSFORMER, MINUTES, validation=LONG)
    assert 54 < machine.now < 66
    assert told[-1].rate < 0.1  # the learning rate has come down to its end


def test_the_time_left_is_that_of_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0.1, 0.1 / 8).installed(monkeypatch)
    left: list[tuple[float, float]] = []

    def note(report: Report) -> None:
        if report.seconds_left is not None:
            left.append((machine.now, report.seconds_left))

    trained(TRANSFORMER, MINUTES, validation=LONG, told=note)
    assert len(left) > 10
    assert all(abs(now + seconds - machine.now) < 4 for now, seconds in left)


def test_the_time_left_of_steps_counts_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 steps of 0.4 s; ten validations of 1,024 tokens and one of 6,000, at a millisecond a token."""
    machine = Machine(0.1, 0.001).installed(monkeypatch)
    told: list[tuple[float, Report]] = []
    training = replace(QUICK, steps=100, validate_every=None, valid_sample=1024)
    trained(TRANSFORMER, training, validation=LONG, told=lambda report: told.append((machine.now, report)))
    assert machine.now == pytest.approx(40 + 10 * 1.024 + 6)
    assert all(abs(now + (each.seconds_left or 0.0) - machine.now) < 0.5 for now, each in told if each.step > 10)


def test_a_sample_is_validated_on_while_it_learns_and_all_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0.1, 0.0001).installed(monkeypatch)
    _, record, told = trained(TRANSFORMER, MINUTES, validation=LONG)
    found = record["validation"]
    sample = found["while_learning"]["read_tokens"]
    assert 64 <= sample < 1000
    assert found["tokens"] == found["read_tokens"] == 6000
    assert found["while_learning"]["loss"] == min(each.valid_loss for each in told if each.valid_loss is not None)
    assert any(f"validation during training reads {sample} of 6,000 tokens" in (each.note or "") for each in told)
    times = sum(each.valid_loss is not None for each in told)
    assert machine.between == pytest.approx(0.0001 * (6000 + sample * times))


def test_the_record_counts_the_tokens_that_a_short_sample_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are whole: a sample of a part of one reads one, and predicts each of its tokens."""
    Machine(0.1, 0.01).installed(monkeypatch)
    _, record, _ = trained(TRANSFORMER, replace(MINUTES, valid_sample=3), validation=LONG)
    found = record["validation"]
    assert found["tokens"] == found["read_tokens"] < found["text_tokens"] == 6000
    assert found["read_tokens"] % TRANSFORMER.context == 0


def test_the_loss_of_the_record_is_that_of_the_whole_text() -> None:
    training = replace(QUICK, steps=20, validate_every=None, valid_sample=64)
    network, record, _ = trained(TRANSFORMER, training, validation=LONG)
    sampled, every, _ = trained(TRANSFORMER, replace(training, valid_sample=6000), validation=LONG)
    assert record["validation"]["while_learning"]["read_tokens"] == 64
    assert every["validation"]["loss"] == every["validation"]["while_learning"]["loss"]
    assert record["validation"]["loss"] == pytest.approx(every["validation"]["loss"], rel=1e-6)
    assert numbers(network) == numbers(sampled)


@pytest.mark.parametrize("tokens", [1, 7, 64, 1000])
def test_a_sample_is_spread_over_the_text(tokens: int) -> None:
    stream = np.arange(1003, dtype=np.int32)
    for parts in (blocks(stream, 8, 5, tokens), lanes(stream, 8, max(1, min(5, tokens // 16)), tokens)):
        read = np.concatenate([part.targets.ravel() for part in parts])
        assert read.size == np.unique(read).size
        assert max(1, tokens - 8) <= read.size <= max(8, tokens)
        if tokens >= 64:
            assert np.unique(read * 4 // 1003).size >= min(4, tokens // 16)


def test_a_slow_machine_takes_fewer_rows_says_so_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of 32 rows of 64 tokens would be 8 steps, one of 4 rows is 60."""
    machine = Machine(1 / 4).installed(monkeypatch)
    config = replace(TRANSFORMER, context=64, dropout=0.2)
    training = replace(MINUTES, batch=None, optimiser="adamw")
    stream = text(3000)
    with pytest.raises(KeyboardInterrupt):
        trained(config, training, stream, folder=tmp_path, told=Stop(machine, 20))
    kept = json.loads((tmp_path / "checkpoints" / "checkpoint.json").read_text())["progress"]
    assert kept["batch"] == 4
    with monkeypatch.context() as patches:
        patches.setattr(run_module, "choose_batch", lambda *_: 16)
        _, record, _ = trained(config, training, stream, folder=tmp_path, resume=True)
    assert record["training"]["batch"] == 4
    _, record, told = trained(config, training, stream)
    assert record["training"]["batch"] == 4
    assert any("the batch is 4, not 32" in (each.note or "") for each in told)
    assert trained(config, replace(training, batch=32), stream)[1]["training"]["batch"] == 32


@pytest.mark.parametrize(
    ("minutes", "fixed_seconds", "rows"),
    [(10, 0.0, 8), (10, 0.5, 16), (20, 2.0, 32)],
    ids=["rows alone", "both", "steps alone"],
)
def test_what_does_not_depend_on_the_rows_is_told_from_what_does(
    minutes: float, fixed_seconds: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of 0.1 s. In ten minutes 187 steps of 32, which want 1.63 times as many, 375 of 16, 1.87, 750 of 8, 2.34.

    With 0.5 s a step, 162 steps of 3.7 s want 1.60 and have 1.76; 285 of 2.1 s want 1.76 and have 1.62. With 2 s, 230
    steps of 5.2 s want 1.69 and have 1.44.
    """
    Machine(0.1, fixed_seconds=fixed_seconds).installed(monkeypatch)
    tried = []

    def noted(*arguments: Any) -> int:
        tried.append(choose_rows(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(sizes, "choose_rows", noted)
    with pytest.raises(KeyboardInterrupt):
        trained(replace(TRANSFORMER, context=64), replace(MINUTES, minutes=minutes, batch=None), text(3000))
    assert tried == [rows]


class Stop:
    """Asks for an end at a time, as Ctrl-C does."""

    def __init__(self, machine: Machine, at: float) -> None:
        self.machine, self.at = machine, at

    def __call__(self, report: Report) -> None:
        if self.machine.now > self.at and report.steps is not None:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("row", [0.25, 1.0], ids=["quick enough", "a step takes more than a trial may"])
def test_a_trial_leaves_no_gradients(row: float, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(row).installed(monkeypatch)
    left = []

    def chosen(job: Any, network: Any, *arguments: Any) -> int:
        rows = sizes.choose_batch(job, network, *arguments)
        left.extend(parameter.grad for parameter in network.parameters())
        return rows

    monkeypatch.setattr(run_module, "choose_batch", chosen)
    trained(replace(TRANSFORMER, context=64), replace(MINUTES, batch=None), text(3000))
    assert left
    assert all(gradient is None for gradient in left)


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_to_try_a_batch_changes_nothing(optimiser: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(1 / 4).installed(monkeypatch)
    config = replace(TRANSFORMER, context=64, dropout=0.2)
    training = replace(MINUTES, optimiser=optimiser, validate_every=5, valid_sample=50)
    losses = []
    for batch in (None, 4):
        machine.now = 0.0
        told = trained(config, replace(training, batch=batch), text(3000))[2]
        losses.append(next(report.valid_loss for report in told if report.step == 5))
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("budget", "row", "fixed_seconds", "rows"),
    [
        (154, 0.01, 0.0, 32),
        (153, 0.01, 0.0, 16),
        (38, 0.01, 0.0, 4),
        (1, 0.01, 0.0, 4),
        (32, 0.01, 0.08, 16),
        (1, 0.01, 0.1, 8),
        (1, 0.01, 1.0, 32),
    ],
    ids=["480 steps", "fewer", "an eighth", "no fewer than 256 tokens", "80 steps", "few steps", "the optimiser"],
)
def test_rows_fit_the_minutes(budget: float, row: float, fixed_seconds: float, rows: int) -> None:
    """480 steps want twice as many for half of the rows (1.4 + 480 / 800); 80 want 1.5 times as many, of 0.4 / 0.24.

    With 0.1 s for each step, half of 16 rows bring 0.26 / 0.18 = 1.44 times as many steps as 3.8.
    """
    assert batch_choices(32, 64, 1) == [32, 16, 8, 4]
    assert choose_rows(batch_choices(32, 64, 1), budget, row, fixed_seconds) == rows


def test_rows_stay_shareable() -> None:
    assert batch_choices(12, 64, 3) == [12, 6]
    assert batch_choices(5, 64, 1) == [5]


def test_a_budget_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Machine(0.1).installed(monkeypatch)
    whole, record, _ = trained(TRANSFORMER, MINUTES, validation=LONG, folder=tmp_path / "whole")
    machine = Machine(0.1).installed(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        trained(TRANSFORMER, MINUTES, validation=LONG, folder=tmp_path / "parts", told=Stop(machine, 30))
    machine.now += 1000  # a pause does not count
    resumed, again, _ = trained(TRANSFORMER, MINUTES, validation=LONG, folder=tmp_path / "parts", resume=True)
    assert again["steps"] == record["steps"]
    assert numbers(resumed) == numbers(whole)


def test_the_seconds_of_a_run_are_those_of_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 0.4 s: 5 after 10 s of reading, and after a pause 7 after 20 s of reading."""
    machine = Machine(0.1).installed(monkeypatch)
    machine.now = 10
    with pytest.raises(KeyboardInterrupt):
        trained(TRANSFORMER, replace(QUICK, validate_every=5), folder=tmp_path, began=0.0, told=Stop(machine, 11.9))
    machine.now = 1020
    index = tmp_path / "checkpoints" / "checkpoint.json"
    entry = json.loads(index.read_text())
    assert entry["progress"]["total_seconds"] == pytest.approx(10 + 5 * 0.4)
    shutil.copytree(tmp_path, tmp_path.with_suffix(".old"))
    _, record, _ = trained(TRANSFORMER, QUICK, folder=tmp_path, began=1000.0, resume=True)
    assert record["earlier_seconds"] == pytest.approx(10 + 5 * 0.4)
    monkeypatch.setattr(api_run, "time", SimpleNamespace(perf_counter=lambda: machine.now))
    assert api_run.seconds_since(1000.0, record) == pytest.approx(10 + 5 * 0.4 + 20 + 7 * 0.4)
    del entry["progress"]["total_seconds"]  # as those of older checkpoints, which know less
    (tmp_path.with_suffix(".old") / "checkpoints" / "checkpoint.json").write_text(json.dumps(entry))
    _, record, _ = trained(TRANSFORMER, QUICK, folder=tmp_path.with_suffix(".old"), resume=True)
    assert record["earlier_seconds"] == entry["progress"]["elapsed"] > 0


def test_unigrams_by_hand() -> None:
    """Counts raised by one, of every token of the vocabulary."""
    stream, held = text(400), text(100, seed=2)
    _, record, _ = trained(TRANSFORMER)
    counts = Counter(stream.tolist())
    nats = -sum(log((counts[token] + 1) / (400 + VOCABULARY)) for token in held.tolist()) / 100
    assert record["validation"]["unigram_loss"] == pytest.approx(nats, rel=1e-9)
    _, record, _ = trained(MASKED)
    counts[2] = 0
    asked = [token for token in held.tolist() if token != 2]
    total = sum(counts.values()) + VOCABULARY
    nats = -sum(log((counts[token] + 1) / total) for token in asked) / len(asked)
    assert record["validation"]["unigram_loss"] == pytest.approx(nats, rel=1e-9)


def test_a_budget_of_minutes_goes_on_with_what_is_left_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0.1).installed(monkeypatch)

    def interrupting(report: Report) -> None:
        if report.steps is not None and report.step < report.steps:
            os.kill(os.getpid(), signal.SIGINT)

    training = replace(MINUTES, save_every=1)
    with pytest.raises(KeyboardInterrupt):
        trained(TRANSFORMER, training, folder=tmp_path, told=interrupting)
    kept = json.loads((tmp_path / "checkpoints" / "checkpoint.json").read_text())["progress"]
    assert kept["steps"] > kept["step"]
    before = machine.now
    _, record, _ = trained(TRANSFORMER, training, folder=tmp_path, resume=True)
    assert record["steps"] > kept["step"]
    assert record["run_seconds"] > kept["elapsed"]
    assert 54 < kept["elapsed"] + machine.now - before < 63
