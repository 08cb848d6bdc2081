"""The settings of mixtures and caches; free of heavy imports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from chainrule.errors import SettingError

MAX_BUCKETS = 200
MAX_CACHE = 1 << 20

Kind = Literal["linear", "log-linear"]


@dataclass(frozen=True, kw_only=True)
class MixtureConfig:
    """linear: P(w|h) = sum of weight_i P_i(w|h). log-linear: P(w|h) proportional to the product of P_i(w|h)^weight_i.

    weights: one a model; without them, they are tuned on a text, or all alike. Linear ones sum to one.
    buckets: with more than one, a linear mixture has weights for each class of the token before: by frequency in the
    text that they are tuned on, so that each class is before about as many tokens.
    """

    kind: Kind = "linear"
    weights: tuple[float, ...] | None = None
    buckets: int = 1

    def __post_init__(self) -> None:
        if self.kind not in ("linear", "log-linear"):
            raise SettingError(f"there is no kind of mixture called {self.kind!r}; choose linear or log-linear")
        if type(self.buckets) is not int or not 1 <= self.buckets <= MAX_BUCKETS:
            raise SettingError(f"buckets is {self.buckets!r}; expected a whole number from 1 to {MAX_BUCKETS}")
        if self.buckets > 1 and self.kind != "linear":
            raise SettingError("weights by the token before are for linear mixtures")
        if self.weights is not None:
            check_weights(self.weights, self.kind)
            if self.buckets > 1:
                raise SettingError("weights by the token before are tuned on a text; say either weights or buckets")


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """A unigram cache: how often a word is among the last `words` tokens of its document."""

    words: int = 500

    def __post_init__(self) -> None:
        if type(self.words) is not int or not 1 <= self.words <= MAX_CACHE:
            raise SettingError(f"a cache of {self.words!r} words; expected a whole number from 1 to {MAX_CACHE:,}")


def check_weights(weights: tuple[float, ...], kind: Kind) -> None:
    """Raises SettingError."""
    told = ", ".join(map(str, weights))
    if not weights or not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise SettingError(f"the weights are {told or 'none'}; expected one a model, from 0 on, and not all of them 0")
    if kind == "linear" and abs(sum(weights) - 1) > 1e-4:
        raise SettingError(f"the weights {told} sum to {sum(weights):g}; those of a linear mixture sum to 1")
