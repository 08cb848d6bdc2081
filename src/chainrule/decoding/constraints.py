"""Constraints on generated texts, in token ids; the same for sampling and beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.arguments import check_tokens
from chainrule.decoding.candidates import Rules
from chainrule.errors import SettingError
from chainrule.protocol import BEGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from chainrule.decoding.sampling_config import SamplingConfig
    from chainrule.protocol import LanguageModel


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """Constraints on each text after its prefix.

    begin: tokens that each text begins with; they are scored and counted.
    min_tokens: no </s> before this many. max_tokens: a text is cut after this many, not counting </s>.
    banned: tokens that may not occur. allowed: the only tokens that may occur, besides </s>.
    no_repeat: no n-gram of this length may occur twice, prefix included; 0 for no such rule.

    Raises SettingError if they contradict each other.
    """

    begin: Sequence[int] = ()
    min_tokens: int = 0
    max_tokens: int = 100
    banned: Sequence[int] = ()
    allowed: Sequence[int] | None = None
    no_repeat: int = 0

    def __post_init__(self) -> None:
        for name in ("min_tokens", "max_tokens", "no_repeat"):
            if getattr(self, name) < 0:
                raise SettingError(f"{name} is {getattr(self, name)}; expected 0 or more")
        if self.min_tokens > self.max_tokens:
            raise SettingError(f"min_tokens is {self.min_tokens}, more than max_tokens, {self.max_tokens}; lower it")
        if len(self.begin) > self.max_tokens:
            raise SettingError(
                f"begin has {len(self.begin)} tokens, more than max_tokens, {self.max_tokens}; raise max_tokens"
            )
        if self.allowed is not None and not len(self.allowed):
            raise SettingError("no token is allowed; allow some, or leave allowed out to allow all")
        forbidden = set(self.begin) & set(self.banned)
        if self.allowed is not None:
            forbidden |= set(self.begin) - set(self.allowed)
        if forbidden:
            raise SettingError(f"texts must begin with token {min(forbidden)}, which is not allowed; allow it")

    def check(self, model: LanguageModel[Any]) -> None:
        """Raises SettingError if an id is not in the model's vocabulary, or none is left."""
        for tokens in (self.begin, self.banned, self.allowed or ()):
            check_tokens(np.array(tokens, np.int64), model.vocabulary_size)
        if model.end in self.begin:
            raise SettingError(f"begin has the token {model.end}, which ends a text; leave it out")
        forbidden = {BEGIN, *self.banned, *([model.end] if self.min_tokens else [])}
        if self.allowed is None:
            left = model.vocabulary_size - len(forbidden)
        else:
            left = len({*self.allowed, model.end} - forbidden)
        if not left and self.max_tokens:
            raise SettingError("there is no token to choose from: every one is banned or not allowed; ban fewer")

    def rules(self, length: int, end: int, config: SamplingConfig) -> Rules:
        """The rules for the token after `length` tokens of a text. end: the id of </s>."""
        banned = (*self.banned, end) if length < self.min_tokens else tuple(self.banned)
        return Rules(banned, None if self.allowed is None else tuple(self.allowed), self.no_repeat, config)
