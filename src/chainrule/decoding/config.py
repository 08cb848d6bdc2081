"""The settings of sampling (SamplingConfig) and of beam search (BeamConfig)."""

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


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How tokens are drawn.

    temperature: log-probabilities are divided by it; 0 takes the most probable token.
    top_k: only the k most probable tokens. top_p: only the fewest most probable tokens with this mass.
    min_p: only tokens with this share of the best token's probability.
    typical: only the tokens whose surprisal is nearest to the entropy, until they have this mass.
    repetition_penalty: multiplies the log-probabilities of tokens that the text or its prefix already has.
    presence_penalty, frequency_penalty: subtracted from the log-probabilities of tokens that the text has after its
    prefix, the second one as often as it has them; below 0, they make repetition likelier.
    logit_bias: pairs of a token id and what is added to its log-probability; -inf bans it.

    Raises SettingError if a setting is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise SettingError(
                f"temperature is {self.temperature}; expected 0 (the most probable token) or more; 1 changes nothing"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SettingError(f"top_k is {self.top_k}; expected 1 or more, or leave it out to keep all")
        for name in ("top_p", "min_p", "typical"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise SettingError(f"{name} is {share}; expected more than 0 and at most 1")
        if not 1 <= self.repetition_penalty < math.inf:
            raise SettingError(f"repetition_penalty is {self.repetition_penalty}; expected 1 (none) or more")
        for name in ("presence_penalty", "frequency_penalty"):
            if not math.isfinite(getattr(self, name)):
                raise SettingError(f"{name} is {getattr(self, name)}; expected a finite number; 0 changes nothing")
        for token, bias in self.logit_bias:
            if not bias < math.inf:
                raise SettingError(
                    f"logit_bias of token {token} is {bias}; expected a finite number, or -inf to ban it"
                )
        cuts = [name for name in ("top_k", "top_p", "min_p", "typical") if getattr(self, name) is not None]
        if self.temperature == 0 and cuts:
            raise SettingError(f"temperature 0 takes the most probable token, so {cuts[0]} does nothing; leave one out")

    @property
    def counts_tokens(self) -> bool:
        """Whether weights depend on how often a text has each token."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0

    @property
    def raises_weights(self) -> bool:
        """Whether it makes some token likelier than the model says, before the temperature."""
        return min(self.presence_penalty, self.frequency_penalty) < 0 or any(bias > 0 for _, bias in self.logit_bias)


GREEDY = SamplingConfig(temperature=0)
