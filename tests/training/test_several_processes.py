"""Several processes that torchrun starts are as good as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.cli.main import run
from chainrule.errors import SettingError
from chainrule.training.processes import Processes

if TYPE_CHECKING:
    from pathlib import Path


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line[name] for name in ("loss", "valid_loss") for line in lines if name in line]


@pytest.mark.parametrize(("precision", "error"), [("float32", 1e-4), ("bfloat16", 2e-2)])
def test_two_processes_have_the_losses_of_one(precision: str, error: float, fixtures: Path, tmp_path: Path) -> None:
    """An LSTM, whose carried state is shared out, and gathered for checkpoints, too."""
    sizes = ["--width", "16", "--layers", "1", "--context", "16"]
    training = ["--steps", "6", "--batch", "4", "--validate-every", "3", "--precision", precision, "--compile", "no"]
    text = [str(fixtures / "train.txt"), "--tokenizer", "character", "--valid", str(fixtures / "heldout.txt")]
    command = ["train", "recurrent", *text, *sizes, *training, "-o"]
    found = of_one_and_two_processes(command, tmp_path)
    assert len(found[0]) == 6 + 2
    np.testing.assert_allclose(*found, rtol=0, atol=error)


def test_two_processes_learn_labels_as_one_does(tmp_path: Path) -> None:
    """Of words, whose numbers differ from text to text, so that the processes have unequal shares of a step."""
    lines = [" ".join(["the dog", "a cat", "saw it", "barks"][i % 4 :] + ["again"] * (i % 3)) for i in range(20)]
    text, words = tmp_path / "text.txt", tmp_path / "words.tsv"
    text.write_text("\n".join(lines) + "\n")
    words.write_text("".join("".join(f"{word}\t{word[0]}\n" for word in line.split()) + "\n" for line in lines))
    network = chainrule.train(
        str(text), chainrule.TransformerConfig(layers=1, width=16, heads=2, context=8), training=TINY
    )
    network.save(tmp_path / "network")
    settings = ["--words", "--epochs", "2", "--batch", "6", "--dropout", "0", "--valid-share", "0.3"]
    command = ["finetune", str(tmp_path / "network"), "--data", str(words), *settings, "--precision", "float32", "-o"]
    found = of_one_and_two_processes(command, tmp_path)
    assert len(found[0]) == 4 + 2
    np.testing.assert_allclose(*found, rtol=0, atol=1e-4)


TINY = chainrule.TrainingConfig(steps=2, batch=2, valid_share=0.0, compile="no")


def of_one_and_two_processes(command: list[str], folder: Path) -> list[list[float]]:
    """The losses of a command, without and with torchrun."""
    assert run([*command, str(folder / "one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "chainrule"]
    environment = {**os.environ, "CHAINRULE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*launcher, *command, str(folder / "two")], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count(f"{folder / 'two'}: ") == 1  # the first process alone tells
    return [losses(folder / name) for name in ("one", "two")]


def test_processes_share_a_batch_evenly() -> None:
    shares = [Processes(rank, 4).rows(12) for rank in range(4)]
    assert shares == [(0, 3), (3, 6), (6, 9), (9, 12)]
    with pytest.raises(SettingError, match="a batch of 6 rows cannot be shared evenly among 4 processes"):
        Processes(0, 4).check_batch(6, 1)
    Processes(0, 4).check_batch(8, 2)
