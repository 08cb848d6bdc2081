"""What training takes besides its settings: how the run goes, and what belongs to a stream. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.training.reports import OnReport, ignore

if TYPE_CHECKING:
    from chainrule.text.vector_files import Vectors


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """How a run goes, whatever it trains.

    folder: for checkpoints and log.jsonl; without one, neither is written. resume: continue from the checkpoint in it,
    or start if there is none. overwrite: start over even if there is one. on_report: called with a Report now and then.
    """

    folder: Path | None = None
    resume: bool = False
    overwrite: bool = False
    on_report: OnReport = ignore

    def __post_init__(self) -> None:
        if self.folder is not None:
            object.__setattr__(self, "folder", Path(self.folder))


@dataclass(frozen=True)
class InitialVectors:
    """Vectors to initialise the embedding with. fixed: train none of the embedding."""

    vectors: Vectors
    fixed: bool

    @property
    def name(self) -> str:
        return vectors_name(self.vectors.name, fixed=self.fixed)


def vectors_name(file: str, *, fixed: bool) -> str:
    """The name in records."""
    return f"{file}, fixed" if fixed else file
