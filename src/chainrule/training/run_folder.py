"""The folder of a run, for those who do not train; free of torch."""

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
    """Whether there is a checkpoint that a run can go on from."""
    return Checkpoints(folder / FOLDER).exist()


def remove_checkpoints(folder: Path) -> None:
    """Of a run whose model has been saved."""
    Checkpoints(folder / FOLDER).remove()
