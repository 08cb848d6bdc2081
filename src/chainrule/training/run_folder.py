"""The folder of a run, for code that does not train. Does not import torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from chainrule.training.checkpoint import FOLDER, Checkpoints

if TYPE_CHECKING:
    from pathlib import Path


def is_first_process() -> bool:
    """Whether this process writes files and reports: the only one, or the first that torchrun started."""
    return int(os.environ.get("RANK", "0")) == 0


def is_unfinished(folder: Path) -> bool:
    """Whether the folder has a checkpoint to resume from."""
    return Checkpoints(folder / FOLDER).exist()


def remove_checkpoints(folder: Path) -> None:
    """Removes the checkpoints of a run whose model is saved."""
    Checkpoints(folder / FOLDER).remove()
