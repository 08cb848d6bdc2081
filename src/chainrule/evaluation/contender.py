"""One model of a comparison: its figures, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.evaluation.likelihood import Measurement


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One row: a model's name, its figures on the held-out text, and what it cost."""

    name: str
    measurement: Measurement
    train_seconds: float | None  # where it is known
    parameters: int | None  # stored probabilities, weights: the numbers that training set
    configuration: str | None = None  # models of the same one differ by chance alone: their seeds
    seed: int | None = None  # of its training, where that depends on one
    size: int | None = None  # bytes of all its numbers in a model folder
    curve: tuple[tuple[float, float], ...] = ()  # seconds of training, and bits per byte of the text to validate on
    level: float | None = None  # these bits of a model that is counted, and has no curve
    samples: tuple[str, ...] = ()  # texts that it generated
    record: dict[str, Any] = field(default_factory=dict)  # of how it came about
