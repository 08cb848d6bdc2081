"""The settings of sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chainrule.errors import SettingError


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How tokens are drawn.

    temperature: log-probabilities are divided by it; 0 takes the most probable token.
    top_k: only the k most probable tokens. top_p: only the fewest most probable tokens with this mass.
    min_p: only tokens with this share of the best token's probability.
    typical: only the tokens whose surprisal is nearest to the entropy, until they have this mass.
    repetition_penalty: multiplies the log-probabilities of tokens that the text or its prefix already has.

    Raises SettingError if a setting is out of range.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical: float | None = None
    repetition_penalty: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < np.inf:
            raise SettingError(
                f"temperature is {self.temperature}; expected 0 (the most probable token) or more; 1 changes nothing"
            )
        if self.top_k is not None and self.top_k < 1:
            raise SettingError(f"top_k is {self.top_k}; expected 1 or more, or leave it out to keep all")
        for name in ("top_p", "min_p", "typical"):
            share = getattr(self, name)
            if share is not None and not 0 < share <= 1:
                raise SettingError(f"{name} is {share}; expected more than 0 and at most 1")
        if not 1 <= self.repetition_penalty < np.inf:
            raise SettingError(f"repetition_penalty is {self.repetition_penalty}; expected 1 (none) or more")
        cuts = [name for name in ("top_k", "top_p", "min_p", "typical") if getattr(self, name) is not None]
        if self.temperature == 0 and cuts:
            raise SettingError(f"temperature 0 takes the most probable token, so {cuts[0]} does nothing; leave one out")


GREEDY = SamplingConfig(temperature=0)
