"""How tokens are written in answers: no two of them alike, and none a text that is no UTF-8."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from chainrule.serving.json_bytes import json_text
from chainrule.serving.token_array_kernels import SPARE
from chainrule.text.corpus.block import byte_array

if TYPE_CHECKING:
    from jaxtyping import Int32, UInt8
    from numpy import ndarray

    from chainrule.text.tokenization.tokenizer import Tokenizer

_PAIRS = 1 << 12  # of tokens, half of which come again in a text; four times as many, 62 %
IMPOSSIBLE = -9999.0  # in place of -inf, which JSON lacks


class TokenNames:
    """The names of a vocabulary's tokens; as JSON, each is written once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._bytes, self._size = np.empty(1 << 12, np.uint8), 0
        self._begins, self._ends = np.zeros((2, tokenizer.vocabulary_size), np.int32)
        self.restore = lru_cache(_PAIRS)(tokenizer.restore)

    def name(self, token: int) -> str:
        """The token as the vocabulary spells it; bytes that are no UTF-8 as escapes."""
        spelled = self._vocabulary.token_bytes(token)
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)

    def json(
        self, tokens: Int32[ndarray, " T"]
    ) -> tuple[UInt8[ndarray, " bytes"], Int32[ndarray, " V"], Int32[ndarray, " V"]]:
        """The JSON of names, those of the tokens among them; where that of each token begins and ends."""
        unwritten = tokens[self._ends[tokens] == 0]
        for token in np.unique(unwritten).tolist():
            data = byte_array(json_text(self.name(token)))
            begin, end = self._size, self._size + data.size
            if end + SPARE > self._bytes.size:
                self._bytes = np.append(self._bytes, np.empty(end + SPARE, np.uint8))
            self._bytes[begin:end] = data
            self._begins[token], self._ends[token], self._size = begin, end, end
        return self._bytes, self._begins, self._ends


def finite(log_prob: float) -> float:
    """The log-probability, or a number that stands for -inf."""
    return log_prob if log_prob > IMPOSSIBLE else IMPOSSIBLE
