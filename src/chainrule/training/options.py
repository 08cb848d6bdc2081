"""What a training takes besides a configuration: how its run goes, and what belongs to a stream. Free of torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chainrule.training.config import TrainingConfig
from chainrule.training.reports import OnReport, ignore

if TYPE_CHECKING:
    from jaxtyping import Bool
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.text.vectors import Vectors
    from chainrule.training.validation import Validation


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """How a run goes, whatever it trains.

    folder: where checkpoints and log.jsonl go; without one there are none. resume: go on from the checkpoint there, or
    begin where there is none. overwrite: begin anew where there is one. on_report: gets a Report now and then.
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
    """Vectors that those of tokens begin as. fixed: none is trained, nor those of tokens that the file lacks."""

    vectors: Vectors
    fixed: bool

    @property
    def name(self) -> str:
        return vectors_name(self.vectors.name, fixed=self.fixed)


def vectors_name(file: str, *, fixed: bool) -> str:
    """As records have it."""
    return f"{file}, fixed" if fixed else file


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What a job on a stream of tokens takes besides the stream and the network's configuration.

    origin: what the ids came from, which must be the same for a run to go on. vectors: what those of tokens begin as.
    begins_word: whether a token begins a word, for what masks words. start: a network of the same configuration, whose
    weights training begins with, and whether that is new: a resumed run has noted it before.
    """

    training: TrainingConfig = field(default_factory=TrainingConfig)
    validation: Validation | None = None
    origin: dict[str, Any] = field(default_factory=dict)
    vectors: InitialVectors | None = None
    begins_word: Bool[ndarray, " vocab"] | None = None
    start: Network | None = None
