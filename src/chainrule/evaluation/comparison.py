"""Several models measured on one text, in one table. Figures whose text differs never share a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.evaluation.likelihood import Measurement


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One row: a model's name, its figures on the held-out text, and what it cost."""

    name: str
    measurement: Measurement
    train_seconds: float
    parameters: int  # stored probabilities, weights: the numbers that training set


@dataclass(frozen=True)
class Comparison:
    """Raises SettingError where the contenders were not measured on the same text."""

    contenders: Sequence[Contender]

    def __post_init__(self) -> None:
        signatures = {contender.measurement.text_signature for contender in self.contenders}
        if len(signatures) > 1:
            raise SettingError(f"figures on different texts cannot stand in one table: {', '.join(sorted(signatures))}")

    @property
    def best(self) -> Contender:
        """The one with the fewest bits per byte; of equals the first."""
        return min(self.contenders, key=lambda contender: contender.measurement.bits_per_byte)

    def header(self) -> list[str]:
        return ["model", "bits/byte", "perplexity", "without OOV", "OOV", "parameters", "train s", "eval s"]

    def rows(self) -> list[list[str]]:
        """Cells for people."""
        return [
            [
                contender.name,
                f"{contender.measurement.bits_per_byte:.4f}",
                f"{contender.measurement.perplexity:,.2f}",
                f"{contender.measurement.perplexity_without_oov:,.2f}",
                f"{contender.measurement.oov / contender.measurement.tokens:.2%}",
                f"{contender.parameters:,}",
                f"{contender.train_seconds:.2f}",
                f"{contender.measurement.seconds:.2f}",
            ]
            for contender in self.contenders
        ]

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "model": contender.name,
                "parameters": contender.parameters,
                "train_seconds": contender.train_seconds,
                **contender.measurement.as_json(),
            }
            for contender in self.contenders
        ]
