"""The result of estimation: probabilities and backoffs by node, with the discounts used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32
    from numpy import ndarray

    from chainrule.ngram.trie.records import Records


@dataclass(frozen=True)
class Discounts:
    """The discounts of counts 1, 2, ... at one order; the last value applies to all larger counts, too."""

    order: int
    values: tuple[float, ...]
    problem: str | None = None  # why they could not be estimated; the values are then a fallback
    fallback: str = ""  # the fallback, for messages

    @property
    def estimated(self) -> bool:
        return self.problem is None


@dataclass(frozen=True)
class Estimates:
    """Probabilities and backoffs of all counted n-grams, by node."""

    log_probs: Float32[ndarray, " nodes"]
    log_backoffs: Float32[ndarray, " inner"]  # log gamma; 0 for a context that nothing follows
    discounts: tuple[Discounts, ...] = ()  # by order
    kept: Bool[ndarray, " nodes"] | None = None  # None: all n-grams are kept
    record: dict[str, Any] = field(default_factory=dict)  # other estimated parameters, such as weights
    records: Records | None = None  # the arrays of `log_probs` and `log_backoffs`, where these lie beside the n-grams
