"""A model in a comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chainrule.evaluation.measurement import Measurement


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A model's name, its figures on the held-out text, and the cost of its training."""

    name: str
    measurement: Measurement
    train_seconds: float | None  # None if unknown
    parameters: int | None  # trained numbers: weights, or stored probabilities and backoffs
    configuration: str | None = None  # models with the same one differ only in their seeds
    seed: int | None = None  # of the training; None if it has no randomness
    size: int | None = None  # bytes of all arrays in a model folder
    curve: tuple[tuple[float, float], ...] = ()  # seconds of training, and validation bits per byte
    level: float | None = None  # validation bits per byte of a model that is counted and so has no curve
    samples: tuple[str, ...] = ()  # generated texts
    record: dict[str, Any] = field(default_factory=dict)  # of its training
