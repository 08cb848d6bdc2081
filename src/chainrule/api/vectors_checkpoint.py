"""What a training of word vectors keeps in its folder until it has ended, so that it goes on bit for bit.

    checkpoints/checkpoint.json             what is trained how, how far it is, and the file of its matrices
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

from chainrule.base.files import replace_file
from chainrule.base.lanes import padded
from chainrule.errors import ModelFormatError, OutputError, SettingError
from chainrule.storage.safetensors import file_digest, open_tensors, write_tensors
from chainrule.training.checkpoint import FOLDER, INDEX
from chainrule.training.resume_check import differences
from chainrule.vectors.aligned_matrices import zero_rows
from chainrule.vectors.training import TrainingState

if TYPE_CHECKING:
    from pathlib import Path

    from numpy import ndarray

_KIND = "vectors"


class VectorsCheckpoint(NamedTuple):
    """matrices: as the training has them."""

    matrices: dict[str, ndarray]
    state: TrainingState


def save_checkpoint(folder: Path, checkpoint: VectorsCheckpoint, run: dict[str, Any]) -> None:
    """run: what must be the same to go on. Raises OutputError."""
    place = folder / FOLDER
    try:
        place.mkdir(parents=True, exist_ok=True)
        temporary = place / "last.tmp"
        digest = write_tensors(temporary, {name: np.ascontiguousarray(m) for name, m in checkpoint.matrices.items()})
        name = f"last-{digest[:16]}.safetensors"
        os.replace(temporary, place / name)
    except OSError as error:
        raise OutputError(f"{place}: cannot be written: {error.strerror}; make room, and go on with resume") from error
    index = {
        "kind": _KIND,
        "run": run,
        "state": asdict(checkpoint.state),
        "file": name,
        "sha256": digest,
    }
    with replace_file(place / INDEX) as file:
        file.write(json.dumps(index, indent=2).encode())
    for old in place.glob("last-*.safetensors"):
        if old.name != name:
            with suppress(OSError):
                old.unlink()


def open_checkpoint(folder: Path, run: dict[str, Any]) -> VectorsCheckpoint | None:
    """None where there is none. Raises SettingError where it is of another run, ModelFormatError where damaged."""
    index = folder / FOLDER / INDEX
    anew = "begin anew with overwrite in place of resume"
    if not index.exists():
        return None
    try:
        found = json.loads(index.read_text(encoding="utf-8"))
        kind, settings, text = found["kind"], dict(found["run"]["settings"]), found["run"]["text"]
        name = str(found["file"])
        state, digest = _state_of(**found["state"]), found["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFormatError(f"{index}: is no checkpoint of word vectors; {anew}") from error
    differing = differences(settings, run["settings"]) + (["the text differs"] if text != run["text"] else [])
    if kind != _KIND or differing:
        what = "; ".join(differing) if kind == _KIND else f"it is of {kind}"
        raise SettingError(f"{folder}: the run cannot go on, since {what}; use the same settings and text, or {anew}")
    path = folder / FOLDER / os.path.basename(name)
    try:
        if file_digest(path) != digest:
            raise ModelFormatError(f"{path}: was damaged since it was written; {anew}")
    except OSError as error:
        raise ModelFormatError(f"{path}: cannot be read: {error.strerror}; {anew}") from error
    return VectorsCheckpoint({name: _aligned(array) for name, array in open_tensors(path).items()}, state)


def _state_of(*, step: int, epoch_losses: list[float], loss: float, examples: int) -> TrainingState:
    """Of what JSON holds. Raises TypeError, ValueError."""
    losses = [float(epoch_loss) for epoch_loss in epoch_losses]
    return TrainingState(step=int(step), epoch_losses=losses, loss=float(loss), examples=int(examples))


def _aligned(array: ndarray) -> ndarray:
    """A copy that can be changed, whose rows lie as kernels like them."""
    if array.dtype != np.float32 or array.shape[1] != padded(array.shape[1]):
        return array.copy()
    rows = zero_rows(*array.shape)
    rows[:] = array
    return rows
