"""The settings of beam search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from chainrule.errors import SettingError

MAX_SIZE = 4096  # open hypotheses
MAX_ALPHA = 10


@dataclass(frozen=True, kw_only=True)
class BeamConfig:
    """How the most probable texts are searched.

    size: the number of open hypotheses. best: the number of texts to return.
    rank_by: the score of a hypothesis: its log-probability (total), divided by its number of predicted tokens (mean),
    or by ((5 + tokens) / 6)^alpha (wu: Wu et al. 2016, equation 14).
    coverage: the weight of the same paper's penalty for source positions that get little attention.
    groups: the beam is divided into this many groups; each pays `diversity` nats for a token that an earlier group
    chose in the same step (Vijayakumar et al. 2018).
    must_end: return only texts that end with </s>.
    stop: end the search when no better text is possible (sure), or when no open hypothesis would be better if it ended
    now (likely), which is much sooner unless rank_by is total.

    Raises SettingError if a setting is out of range.
    """

    size: int = 5
    best: int = 1
    rank_by: Literal["total", "mean", "wu"] = "total"
    alpha: float = 0.6
    coverage: float = 0.0
    groups: int = 1
    diversity: float = 0.5
    must_end: bool = False
    stop: Literal["sure", "likely"] = "sure"

    def __post_init__(self) -> None:
        for name in ("size", "best", "groups"):
            if getattr(self, name) < 1:
                setting = "beam" if name == "size" else name
                raise SettingError(f"{setting} is {getattr(self, name)}; expected 1 or more")
        if self.size > MAX_SIZE:
            raise SettingError(f"beam is {self.size}; expected at most {MAX_SIZE}: wider ones gain nothing")
        if self.best > self.size:
            raise SettingError(f"a beam of {self.size} cannot return the {self.best} best texts; widen it")
        if self.size % self.groups:
            raise SettingError(f"a beam of {self.size} cannot be divided into {self.groups} groups of equal size")
        if self.rank_by not in ("total", "mean", "wu"):
            raise SettingError(f"rank_by is {self.rank_by!r}; choose total, mean or wu")
        if self.stop not in ("sure", "likely"):
            raise SettingError(f"stop is {self.stop!r}; choose sure or likely")
        if self.alpha > MAX_ALPHA:
            raise SettingError(f"alpha is {self.alpha}; expected 0 to {MAX_ALPHA}, about 1 as a rule")
        for name in ("alpha", "coverage", "diversity"):
            if not 0 <= getattr(self, name) < math.inf:
                raise SettingError(f"{name} is {getattr(self, name)}; expected 0 or more")

    def divisor(self, length: int) -> float:
        """What to divide the log-probability of `length` predicted tokens by, </s> included. Grows with the length."""
        if self.rank_by == "total" or length == 0:
            return 1.0
        return float(length) if self.rank_by == "mean" else ((5 + length) / 6) ** self.alpha
