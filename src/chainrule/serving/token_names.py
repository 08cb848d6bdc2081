"""How tokens are written in answers: no two of them alike, and none a text that is no UTF-8."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.serving.json_bytes import json_text

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

    from chainrule.text.tokenizer import Tokenizer

IMPOSSIBLE = -9999.0  # in place of -inf, which JSON lacks


class TokenNames:
    """The names of a vocabulary's tokens, and the text of pairs of tokens, each computed once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._names: dict[int, str] = {}
        self._json = np.full(tokenizer.vocabulary_size, None, object)
        self.restore = lru_cache(1 << 14)(tokenizer.restore)

    def name(self, token: int) -> str:
        """The token as the vocabulary spells it; bytes that are no UTF-8 as escapes."""
        name = self._names.get(token)
        if name is None:
            spelled = self._vocabulary.token_bytes(token)
            try:
                name = spelled.decode()
            except UnicodeDecodeError:
                name = "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)
            self._names[token] = name
        return name

    def json(self, tokens: Int32[ndarray, " T"]) -> list[bytes]:
        """Their names as JSON."""
        names: list[bytes] = self._json[tokens].tolist()
        if None in names:
            for token in np.unique(tokens).tolist():
                self._json[token] = json_text(self.name(token))
            names = self._json[tokens].tolist()
        return names


def finite(log_prob: float) -> float:
    """The log-probability, or a number that stands for -inf."""
    return log_prob if log_prob > IMPOSSIBLE else IMPOSSIBLE
