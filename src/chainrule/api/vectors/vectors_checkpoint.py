"""Checkpoints of word-vector training, from which it resumes bit for bit.

    checkpoints/checkpoint.json             the settings, the state, and the name of the matrices' file
    checkpoints/last-<digest>.safetensors   the matrices

Replacing checkpoint.json is the one commit point.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from chainrule.base.files import read_file, replace_file
from chainrule.base.lanes import padded
from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.storage.safetensors import file_digest, open_tensors, write_tensors
from chainrule.training.checkpoint import FOLDER, INDEX, START_OVER
from chainrule.training.config import differences
from chainrule.vectors.learning import zero_rows
from chainrule.vectors.training import TrainingState

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_KIND = "vectors"


class VectorsCheckpoint(NamedTuple):
    """The matrices and state of a training."""

    matrices: dict[str, ndarray]
    state: TrainingState


def save_checkpoint(folder: Path, checkpoint: VectorsCheckpoint, run: dict[str, Any]) -> None:
    """Writes a checkpoint. run: the settings and text that must be the same to resume. Raises OutputError."""
    checkpoints = folder / FOLDER
    try:
        checkpoints.mkdir(parents=True, exist_ok=True)
        temporary = checkpoints / "last.tmp"
        digest = write_tensors(temporary, {name: np.ascontiguousarray(m) for name, m in checkpoint.matrices.items()})
        name = f"last-{digest[:16]}.safetensors"
        os.replace(temporary, checkpoints / name)
    except OSError as error:
        raise OutputError(
            f"{checkpoints}: cannot be written: {error.strerror}; free disk space, then continue with resume=True"
        ) from error
    index = {
        "kind": _KIND,
        "run": run,
        "state": asdict(checkpoint.state),
        "file": name,
        "sha256": digest,
    }
    with replace_file(checkpoints / INDEX) as file:
        file.write(json.dumps(index, indent=2).encode())
    for old in checkpoints.glob("last-*.safetensors"):
        if old.name != name:
            with suppress(OSError):
                old.unlink()


def open_checkpoint(folder: Path, run: dict[str, Any]) -> VectorsCheckpoint | None:
    """Opens the checkpoint in a folder, if there is one.

    Raises SettingError if it is of another run; ModelFormatError if it is damaged.
    """
    index = folder / FOLDER / INDEX
    if not index.exists():
        return None
    try:
        read = json.loads(read_file(index))
        kind, settings, text = read["kind"], dict(read["run"]["settings"]), read["run"]["text"]
        name = str(read["file"])
        state, digest = _state_of(**read["state"]), read["sha256"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFormatError(f"{index}: is not a checkpoint of word vectors; {START_OVER}") from error
    differing = differences(settings, run["settings"]) + (["the text differs"] if text != run["text"] else [])
    if kind != _KIND or differing:
        what = "; ".join(differing) if kind == _KIND else f"it is of {kind}"
        raise SettingError(f"{folder}: cannot resume: {what}; use the same settings and text, or {START_OVER}")
    path = folder / FOLDER / os.path.basename(name)
    try:
        if file_digest(path) != digest:
            raise ModelFormatError(f"{path}: is damaged, its checksum differs; {START_OVER}")
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; {START_OVER}") from error
    return VectorsCheckpoint({name: _aligned(array) for name, array in open_tensors(path).items()}, state)


def _state_of(*, step: int, epoch_losses: list[float], loss: float, examples: int) -> TrainingState:
    """The state that JSON values describe. Raises TypeError, ValueError."""
    losses = [float(epoch_loss) for epoch_loss in epoch_losses]
    return TrainingState(step=int(step), epoch_losses=losses, loss=float(loss), examples=int(examples))


def _aligned(array: ndarray) -> ndarray:
    """A writable copy, its rows aligned as the kernels need them."""
    if array.dtype != np.float32 or array.shape[1] != padded(array.shape[1]):
        return array.copy()
    rows = zero_rows(*array.shape)
    rows[:] = array
    return rows
