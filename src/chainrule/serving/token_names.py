"""How tokens are written in answers: no two of them alike, and none a text that is no UTF-8."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from chainrule.serving.json_bytes import json_text

if TYPE_CHECKING:
    from chainrule.text.tokenizer import Tokenizer

IMPOSSIBLE = -9999.0  # in place of -inf, which JSON lacks


class TokenNames:
    """The names of a vocabulary's tokens, and the text of pairs of tokens, each computed once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._names: dict[int, str] = {}
        self._json: dict[int, bytes] = {}
        self.restore = lru_cache(1 << 16)(tokenizer.restore)

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

    def all_json(self, tokens: list[int]) -> list[bytes]:
        """Their names as JSON."""
        try:
            return [self._json[token] for token in tokens]
        except KeyError:
            self._json |= {token: json_text(self.name(token)) for token in {*tokens} - self._json.keys()}
            return [self._json[token] for token in tokens]


def finite(log_prob: float) -> float:
    """The log-probability, or a number that stands for -inf."""
    return log_prob if log_prob > IMPOSSIBLE else IMPOSSIBLE
