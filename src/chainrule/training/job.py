"""What one training run is given besides what it trains: settings, validation, folder, callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from chainrule.training.config import TrainingConfig
from chainrule.training.reports import Told, nobody

if TYPE_CHECKING:
    from pathlib import Path

    from jaxtyping import Bool
    from numpy import ndarray

    from chainrule.neural.network import Network
    from chainrule.text.vectors import Vectors
    from chainrule.training.validation import Validation


@dataclass(frozen=True)
class Beginning:
    """Vectors of tokens from a file. fixed: they are not trained, nor those of the tokens that were not found."""

    vectors: Vectors
    fixed: bool

    @property
    def name(self) -> str:
        return beginning_name(self.vectors.name, fixed=self.fixed)


def beginning_name(file: str, *, fixed: bool) -> str:
    """As records have it."""
    return f"{file}, fixed" if fixed else file


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run needs besides a text and a network's configuration.

    folder: where checkpoints and log.jsonl go; without one there are none. resume: go on from the checkpoint there, or
    begin where there is none. overwrite: begin anew where there is one. origin: what the ids came from, which must be
    the same for a run to go on. beginning: what the vectors of tokens begin as. begins_word: whether a token begins a
    word, for what masks words. start: a network of the same configuration, whose weights training begins with.
    """

    training: TrainingConfig = field(default_factory=TrainingConfig)
    validation: Validation | None = None
    folder: Path | None = None
    resume: bool = False
    overwrite: bool = False
    origin: dict[str, Any] = field(default_factory=dict)
    beginning: Beginning | None = None
    told: Told = nobody
    begins_word: Bool[ndarray, " vocab"] | None = None
    start: Network | None = None
