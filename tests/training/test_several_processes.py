"""Several processes that torchrun starts are as good as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import chainrule
from chainrule.cli.main import run
from chainrule.errors import SettingError
from chainrule.training.distributed import Processes

TINY = chainrule.TrainingConfig(steps=2, batch=2, valid_share=0.0, compile="no")
LOSSES = {"float32": 6 + 2, "bfloat16": 6 + 2, "labels": 4 + 2}  # of steps, and of validations


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line[name] for name in ("loss", "valid_loss") for line in lines if name in line]


def command_of_a_language_model(precision: str, fixtures: Path) -> list[str]:
    """An LSTM, whose carried state is shared out, and gathered for checkpoints, too."""
    sizes = ["--width", "16", "--layers", "1", "--context", "16"]
    training = ["--steps", "6", "--batch", "4", "--validate-every", "3", "--precision", precision, "--compile", "no"]
    text = [str(fixtures / "train.txt"), "--tokenizer", "character", "--valid", str(fixtures / "heldout.txt")]
    return ["train", "recurrent", *text, *sizes, *training]


def command_of_labels(folder: Path) -> list[str]:
    """Of words, whose numbers differ from text to text, so that the processes have unequal shares of a step."""
    lines = [" ".join(["the dog", "a cat", "saw it", "barks"][i % 4 :] + ["again"] * (i % 3)) for i in range(20)]
    text, words = folder / "text.txt", folder / "words.tsv"
    text.write_text("\n".join(lines) + "\n")
    words.write_text("".join("".join(f"{word}\t{word[0]}\n" for word in line.split()) + "\n" for line in lines))
    network = chainrule.train(
        str(text), chainrule.TransformerConfig(layers=1, width=16, heads=2, context=8), training=TINY
    )
    network.save(folder / "network")
    settings = ["--words", "--epochs", "2", "--batch", "6", "--dropout", "0", "--valid-share", "0.3"]
    return ["finetune", str(folder / "network"), "--data", str(words), *settings, "--precision", "float32"]


@pytest.fixture(scope="module")
def runs(fixtures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where commands have run, each without and with torchrun, which starts two processes for all."""
    folder = tmp_path_factory.mktemp("runs")
    commands = {name: command_of_a_language_model(name, fixtures) for name in ("float32", "bfloat16")}
    commands["labels"] = command_of_labels(folder)
    for name, command in commands.items():
        assert run([*command, "-o", str(folder / f"{name}-one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    script = Path(__file__).with_name("commands_in_turn.py")
    in_two = [[*command, "-o", str(folder / f"{name}-two")] for name, command in commands.items()]
    environment = {**os.environ, "CHAINRULE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*launcher, str(script), json.dumps(in_two)], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert all(result.stdout.count(f"{folder / name}-two: ") == 1 for name in commands)  # the first process alone tells
    return folder


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "error"), [("float32", 1e-4), ("bfloat16", 2e-2), ("labels", 1e-4)])
def test_two_processes_have_the_losses_of_one(runs: Path, name: str, error: float) -> None:
    one, two = (losses(runs / f"{name}-{processes}") for processes in ("one", "two"))
    assert len(one) == LOSSES[name]
    np.testing.assert_allclose(one, two, rtol=0, atol=error)


def test_processes_share_a_batch_evenly() -> None:
    shares = [Processes(rank, 4).rows(12) for rank in range(4)]
    assert shares == [(0, 3), (3, 6), (6, 9), (9, 12)]
    with pytest.raises(SettingError, match="a batch of 6 rows cannot be shared evenly among 4 processes"):
        Processes(0, 4).check_batch(6, 1)
    Processes(0, 4).check_batch(8, 2)
