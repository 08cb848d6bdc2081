"""The settings of mixtures and caches. Imports nothing heavy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from chainrule.base.options import Options, option
from chainrule.errors import SettingError

MAX_BUCKETS = 200
MAX_CACHE, MAX_CACHE_ORDER = 1 << 20, 32

Kind = Literal["linear", "log-linear"]
GateKind = Literal["default", "evidence", "distributions"]


@dataclass(frozen=True, kw_only=True)
class MixtureConfig:
    """The settings of a mixture of models.

    kind: linear, P(w|h) = sum of weight_i P_i(w|h); or log-linear, P(w|h) proportional to the product of
    P_i(w|h)^weight_i.
    weights: one for each model; by default tuned on a text, or all equal. Those of a linear mixture sum to one.
    buckets: a linear mixture with more than one has separate weights for each class of the previous token. Classes are
    by frequency in the tuning text, such that each precedes about as many tokens.
    adaptive: a linear mixture whose weights depend on the context, by a gate that is learned on the tuning text.
    gate: what the gate of adaptive weights sees: evidence, what each model did on the last tokens and has seen of the
    context; or distributions, those that the models give, too; by default these where they help and the vocabulary is
    small.
    """

    kind: Kind = "linear"
    weights: tuple[float, ...] | None = None
    buckets: int = 1
    adaptive: bool = False
    gate: GateKind = "default"

    def __post_init__(self) -> None:
        if self.kind not in ("linear", "log-linear"):
            raise SettingError(f"there is no kind of mixture called {self.kind!r}; choose linear or log-linear")
        if type(self.buckets) is not int or not 1 <= self.buckets <= MAX_BUCKETS:
            raise SettingError(f"buckets is {self.buckets!r}; expected a whole number from 1 to {MAX_BUCKETS}")
        if self.buckets > 1 and self.kind != "linear":
            raise SettingError(f"buckets is {self.buckets}, but only linear mixtures have buckets; leave it out")
        others = {"kind='log-linear'": self.kind != "linear", "buckets=...": self.buckets > 1}
        others["weights=..."] = self.weights is not None
        if self.adaptive and any(others.values()):
            listed = " and ".join(name for name, is_given in others.items() if is_given)
            raise SettingError(f"adaptive=True does not go with {listed}; leave one of them out")
        if self.gate not in get_args(GateKind):
            raise SettingError(f"gate is {self.gate!r}; choose {', '.join(get_args(GateKind))}")
        if self.gate != "default" and not self.adaptive:
            raise SettingError(f"gate is {self.gate}, but only adaptive weights have a gate; set adaptive")
        if self.weights is not None:
            check_weights(self.weights, self.kind)
            if self.buckets > 1:
                raise SettingError("the weights of buckets are tuned on a text; give either weights or buckets")


@dataclass(frozen=True, kw_only=True)
class CacheConfig(Options):
    """A cache of the last tokens of the document, and of their n-grams up to an order."""

    words: int = option(500, "How many previous tokens of the document are kept", least=1, most=MAX_CACHE)
    order: int = option(1, "The longest n-grams that are counted among them", least=1, most=MAX_CACHE_ORDER)


def check_weights(weights: tuple[float, ...], kind: Kind) -> None:
    """Raise SettingError if weights are below 0 or all 0, or those of a linear mixture do not sum to 1."""
    listed = ", ".join(map(str, weights))
    if not weights or not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        raise SettingError(f"the weights are {listed or 'none'}; expected one for each model, 0 or more, not all 0")
    if kind == "linear" and abs(sum(weights) - 1) > 1e-4:
        raise SettingError(f"the weights {listed} sum to {sum(weights):g}; expected one for each model, 1 in all")
