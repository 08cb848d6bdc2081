"""A run that was killed or interrupted goes on as if nothing had happened, bit for bit."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from samples import sampled
from training_runs import (
    FINE_TUNING,
    QUICK,
    RECURRENT,
    TRANSFORMER,
    forking_context,
    killed_at,
    numbers,
    text,
    trained,
    validation,
)

from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.features.classify.network.config import LSTMLabelling
from chainrule.features.speech.network_config import SpeechConfig
from chainrule.neural.config import BilinearConfig, ConvolutionConfig, MaskedConfig
from chainrule.training.checkpoint import remove_checkpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from chainrule.features.classify.network.config import LabellingConfig
    from chainrule.neural.config import NetworkConfig
    from chainrule.training.config import FineTuningConfig, TrainingConfig
    from chainrule.training.reports import Report

RUNS = {
    "recurrent": (RECURRENT, replace(QUICK, ema=0.9)),
    "transformer": (TRANSFORMER, QUICK),
    "convolution": (
        ConvolutionConfig(layers=2, width=12, kernel=2, dilation=1, context=6, dropout=0.1),
        replace(QUICK, accumulate=2),
    ),
    "masked": (
        MaskedConfig(layers=1, width=16, heads=2, context=8, masks="spans", dropout=0.1),
        replace(QUICK, accumulate=2),
    ),
    "an empty state": (BilinearConfig(width=12, window=1, context=6), QUICK),
    "in parts": (RECURRENT, replace(QUICK, accumulate=2, optimiser="sgd", schedule="plateau", patience=1)),
    "averaged": (RECURRENT, replace(QUICK, optimiser="asgd", validate_every=2, patience=1, forcing="scheduled")),
    "labels": (FINE_TUNING, QUICK),
    "labels from scratch": (LSTMLabelling(width=8, embedding_width=6, directions="both", layers=2), QUICK),
    "a running average": (RECURRENT, replace(QUICK, ema=0.9, accumulate=2)),
    "speech": (SpeechConfig(width=8, layers=1, mels=8, masks=1, labels=("a", "b")), QUICK),
    "in bfloat16": (RECURRENT, replace(QUICK, precision="bfloat16")),
    "sums of character n-grams": (TRANSFORMER, replace(QUICK, character_ngrams="yes")),
}


def in_a_process(
    event: int,
    config: NetworkConfig | FineTuningConfig | LabellingConfig | SpeechConfig,
    training: TrainingConfig,
    folder: Path,
) -> int | None:
    """How a process ended that was to be killed at an event, or went on to its end."""
    process = forking_context().Process(target=killed_at, args=(event, config, training, folder))
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize(
    "name", sampled(RUNS, ["sums of character n-grams", "averaged", "labels", "a running average"])
)
def test_a_run_that_is_killed_anywhere_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    config, training = RUNS[name]
    whole, _, _ = trained(config, training, folder=tmp_path / "whole")
    kills = 0
    for event in range(1, 200, {"recurrent": 7, "averaged": 62}.get(name, 31)):
        folder = tmp_path / str(event)
        ended = in_a_process(event, config, training, folder)
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        kills += 1
        resumed, record, _ = trained(config, training, folder=folder, resume=True)
        assert numbers(resumed) == numbers(whole), event
        assert record["steps"] == 12
    assert kills >= (10 if name == "recurrent" else 2)


def test_one_run_that_is_killed_again_and_again(tmp_path: Path) -> None:
    config, training = RUNS["recurrent"]
    whole, _, _ = trained(config, training)
    ends = [in_a_process(event, config, training, tmp_path) for event in (9, 30, 3, 41, 22, 10_000)]
    assert ends[-1] == 0
    assert (tmp_path / "weights").read_bytes() == numbers(whole)
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "transformer"])
def test_a_run_in_bfloat16_is_saved_and_goes_on_bit_for_bit(cell: str, tmp_path: Path) -> None:
    config = TRANSFORMER if cell == "transformer" else replace(RECURRENT, cell=cell)
    training = replace(QUICK, precision="bfloat16")
    whole, record, _ = trained(config, training, folder=tmp_path / "whole")
    assert record["training"]["bfloat16"] is True
    assert numbers(whole) != numbers(trained(config)[0])
    with pytest.raises(KeyboardInterrupt):
        trained(config, training, folder=tmp_path / "ended", told=Stop(5))
    resumed, _, told = trained(config, training, folder=tmp_path / "ended", resume=True)
    assert told[0].step > 5
    assert numbers(resumed) == numbers(whole)


class Stop:
    """Is told, and asks for an end after so many steps, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, report: Report) -> None:
        if report.step == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("order", [0, 4])
def test_a_checkpoint_with_settings_of_an_n_gram_memory_resumes_where_it_is_off(order: int, tmp_path: Path) -> None:
    whole, _, _ = trained(RECURRENT)
    with pytest.raises(KeyboardInterrupt):
        trained(RECURRENT, folder=tmp_path, told=Stop(5))
    index = tmp_path / "checkpoints" / "checkpoint.json"
    checkpoint = json.loads(index.read_text())
    checkpoint["run"]["network"] |= {"ngram_memory": order, "ngram_rows": 16384, "ngram_width": 64}
    checkpoint["run"]["training"]["ngram_learning_rate"] = None
    index.write_text(json.dumps(checkpoint))
    if order:
        with pytest.raises(ModelFormatError, match=r"checkpoint.json: the network was trained with an n-gram memory"):
            trained(RECURRENT, folder=tmp_path, resume=True)
    else:
        resumed, _, _ = trained(RECURRENT, folder=tmp_path, resume=True)
        assert numbers(resumed) == numbers(whole)


@pytest.mark.parametrize(
    "config",
    [RECURRENT, TRANSFORMER, MaskedConfig(layers=1, width=16, heads=2, context=8, dropout=0.1, next_sentence=True)],
    ids=["recurrent", "transformer", "pairs"],
)
def test_an_interrupted_run_says_how_to_go_on_and_does(config: NetworkConfig, tmp_path: Path) -> None:
    whole, _, _ = trained(config)
    with pytest.raises(KeyboardInterrupt, match=r"interrupted after step 5; the run is saved in .*and resume=True"):
        trained(config, folder=tmp_path, told=Stop(5))
    resumed, _, told = trained(config, folder=tmp_path, resume=True)
    assert numbers(resumed) == numbers(whole)
    assert told[0].step > 5


def test_an_interrupted_run_without_a_folder_says_that_nothing_is_kept() -> None:
    with pytest.raises(KeyboardInterrupt, match="nothing was saved, since no folder was given"):
        trained(RECURRENT, told=Stop(5))


@pytest.fixture
def interrupted(tmp_path: Path) -> Path:
    """The folder of a recurrent run that ended after 5 of its 12 steps."""
    with pytest.raises(KeyboardInterrupt):
        trained(RECURRENT, folder=tmp_path, told=Stop(5))
    return tmp_path


@pytest.mark.parametrize(
    ("config", "training", "more", "message"),
    [
        (replace(RECURRENT, width=14), QUICK, {}, "width was 12 and is 14"),
        (RECURRENT, replace(QUICK, steps=13, seed=4), {}, "steps was 12 and is 13; seed was 0 and is 4"),
        (RECURRENT, QUICK, {"stream": text(390)}, r"the text has changed \(400 tokens, now 390\)\. "),
        (
            RECURRENT,
            QUICK,
            {"validation": validation(90)},
            r"the validation text has changed \(100 tokens, now 90\)",
        ),
        (RECURRENT, QUICK, {"origin": {"tokenizer": "word"}}, "tokenizer was not set and is word"),
        (RECURRENT, QUICK, {"origin": {"family": "transformer"}}, "is of family None, not transformer"),
    ],
)
def test_other_settings_are_an_error_that_names_the_difference(
    interrupted: Path, config: NetworkConfig, training: TrainingConfig, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=rf"{message}.*(overwrite=True in place of resume=True|another folder)"):
        trained(config, training, folder=interrupted, resume=True, **more)


def test_what_has_no_effect_may_be_said_otherwise(interrupted: Path) -> None:
    trained(RECURRENT, replace(QUICK, save_every=100), folder=interrupted, resume=True)


def test_an_unfinished_run_is_not_lost_by_mistake(interrupted: Path) -> None:
    with pytest.raises(
        OutputError, match="an unfinished run is there; continue it with resume=True, or start over with overwrite=True"
    ):
        trained(RECURRENT, folder=interrupted)
    trained(RECURRENT, folder=interrupted, overwrite=True)


def test_two_runs_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    met = []

    def begun_twice(report: Report) -> None:
        for more in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(OutputError, match="another run is using this folder; wait for its end") as caught:
                trained(RECURRENT, folder=tmp_path, **more)
            met.append(caught.value)
        remove_checkpoints(tmp_path)

    whole, _, _ = trained(RECURRENT, folder=tmp_path, told=begun_twice)
    assert met
    assert numbers(trained(RECURRENT, folder=tmp_path, resume=True)[0]) == numbers(whole)
    remove_checkpoints(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


@pytest.mark.parametrize(
    ("before", "after"), [('"format": 1', '"format": 2'), ('"steps": 12', '"stairs": 12'), ("{", "")]
)
def test_a_checkpoint_of_another_version_is_an_error(interrupted: Path, before: str, after: str) -> None:
    index = interrupted / "checkpoints" / "checkpoint.json"
    index.write_text(index.read_text().replace(before, after, 1).replace(before, after))
    with pytest.raises(
        ModelFormatError,
        match=r"checkpoint.json: .*another version; start over with overwrite=True in place of resume=True",
    ):
        trained(RECURRENT, folder=interrupted, resume=True)


def test_a_number_that_is_none_is_an_error(interrupted: Path) -> None:
    index = interrupted / "checkpoints" / "checkpoint.json"
    entry = json.loads(index.read_text())
    entry["progress"]["elapsed"] = float("nan")
    index.write_text(json.dumps(entry))
    with pytest.raises(ModelFormatError, match=r"checkpoint.json"):
        trained(RECURRENT, folder=interrupted, resume=True)


@pytest.mark.parametrize("kind", ["last", "best"])
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(interrupted: Path, kind: str) -> None:
    [path] = (interrupted / "checkpoints").glob(f"{kind}-*.safetensors")
    damaged(path)
    if kind == "last":
        index = interrupted / "checkpoints" / "checkpoint.json"
        entry = json.loads(index.read_text())
        del entry["files"]["best"]
        index.write_text(json.dumps(entry))
    with pytest.raises(ModelFormatError, match=rf"{kind}-.*SHA-256.*overwrite=True in place of resume=True"):
        trained(RECURRENT, folder=interrupted, resume=True)
    path.unlink()
    with pytest.raises(ModelFormatError, match=rf"{kind}-.*the checkpoint is incomplete"):
        trained(RECURRENT, folder=interrupted, resume=True)


def damaged(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("spoil", [damaged, lambda path: path.unlink()], ids=["damaged", "lost"])
def test_a_damaged_last_checkpoint_is_noted_and_the_best_one_is_resumed(
    spoil: Callable[[Path], None], tmp_path: Path
) -> None:
    training = replace(QUICK, accumulate=2, ema=0.5)
    with pytest.raises(KeyboardInterrupt):
        trained(RECURRENT, training, folder=tmp_path, told=Stop(10))
    [last] = (tmp_path / "checkpoints").glob("last-*.safetensors")
    kept = json.loads((tmp_path / "checkpoints" / "checkpoint.json").read_text())["progress"]
    assert (kept["step"], kept["best_step"]) == (10, 10)
    spoil(last)
    _, record, told = trained(RECURRENT, training, folder=tmp_path, resume=True)
    assert [report.step for report in told] == [11, 12]
    assert told[0].note is not None
    assert str(last) in told[0].note
    assert "the run continues from the best weights, of step 10, not from step" in told[0].note
    assert told[1].note is None
    assert record["steps"] == 12
    assert record["validation"]["loss"] <= kept["best"]
    assert "best weights" in (tmp_path / "log.jsonl").read_text()


def test_resuming_where_there_is_nothing_begins(tmp_path: Path) -> None:
    network, _, _ = trained(RECURRENT, folder=tmp_path / "new", resume=True)
    assert numbers(network) == numbers(trained(RECURRENT)[0])


def test_no_space_left_keeps_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chainrule.training import checkpoint

    write = checkpoint.write_tensors
    calls = []

    def full(path: Path, arrays: Any) -> str:
        calls.append(path)
        if len(calls) > 2:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")
        return write(path, arrays)

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(
        OutputError, match=r"checkpoint of step \d+ cannot be written: No space left on device; .*resume=True"
    ):
        trained(RECURRENT, folder=tmp_path)
    monkeypatch.undo()
    assert not list((tmp_path / "checkpoints").glob(".*"))
    assert numbers(trained(RECURRENT, folder=tmp_path, resume=True)[0]) == numbers(trained(RECURRENT)[0])
