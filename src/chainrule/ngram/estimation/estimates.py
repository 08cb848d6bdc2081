"""What estimation gives: probabilities and back-offs by node, with the discounts used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32
    from numpy import ndarray

    from chainrule.ngram.trie.records import Records


@dataclass(frozen=True)
class Discounts:
    """What is taken from counts of 1, 2, ..., at one order; the last value is for all that are larger, too."""

    order: int
    values: tuple[float, ...]
    problem: str | None = None  # why they could not be estimated, where the fallback stands in
    fallback: str = ""  # what stands in, in words

    @property
    def estimated(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class Estimates:
    """The numbers of every n-gram that was counted, by node."""

    log_probs: Float32[ndarray, " nodes"]
    log_backoffs: Float32[ndarray, " inner"]  # log gamma; 0 where nothing follows
    discounts: tuple[Discounts, ...] = ()  # by order
    kept: Bool[ndarray, " nodes"] | None = None  # without it, all are
    record: dict[str, Any] = field(default_factory=dict)  # what else was estimated: weights, constants
    records: Records | None = None  # where the numbers lie beside the n-grams already
