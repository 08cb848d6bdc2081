"""Several processes that torchrun starts are as good as one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

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
    assert run([*command, str(tmp_path / "one")]) == 0
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    launcher += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "-m", "chainrule"]
    environment = {**os.environ, "CHAINRULE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        [*launcher, *command, str(tmp_path / "two")], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("model of") == 1  # the first process alone tells
    found = [losses(tmp_path / name) for name in ("one", "two")]
    assert len(found[0]) == 6 + 2
    np.testing.assert_allclose(*found, rtol=0, atol=error)


def test_processes_share_a_batch_evenly() -> None:
    shares = [Processes(rank, 4).rows(12) for rank in range(4)]
    assert shares == [(0, 3), (3, 6), (6, 9), (9, 12)]
    with pytest.raises(SettingError, match="a batch of 6 rows cannot be shared evenly among 4 processes"):
        Processes(0, 4).check_batch(6, 1)
    Processes(0, 4).check_batch(8, 2)
