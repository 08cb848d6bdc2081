"""The symbols that tokens are spelled with: known characters, and single bytes for everything else.

Every byte string has exactly one spelling, since bytes must not form a known character, which has a symbol of its own.
Symbols are token ids of an n-gram model: 3 + i is the i-th known character, </s> ends a token, and <unk> stands for a
byte; all bytes that are possible at that position are equally likely.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

from chainrule.protocol import END, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Bool, Int32, Int64
    from numpy import ndarray

FIRST = 3  # the symbol of the first known character


class Alphabet:
    """characters: ascending code points. never: ASCII bytes that no token contains, such as white space."""

    def __init__(self, characters: Int32[ndarray, " known"], never: bytes) -> None:
        self.characters, self.never = characters, never
        self._known = frozenset(characters.tolist())
        self._impossible = set(never) | {code for code in self._known if code < 0x80}
        self._completions = defaultdict[bytes, set[int]](set)  # last bytes of known characters, by their other bytes
        for spelled in (chr(code).encode() for code in characters[characters >= 0x80].tolist()):
            self._completions[spelled[:-1]].add(spelled[-1])
        self._prefixes = {start[:n] for start in self._completions for n in range(1, len(start) + 1)}

    @classmethod
    def of(cls, spellings: Sequence[bytes], never: bytes) -> Alphabet:
        """The alphabet of all characters that occur at least twice; from the others, a model learns to expect bytes."""
        codes, counts = np.unique(_code_points(map(_decode, spellings)), return_counts=True)
        known = (counts > 1) & ~_is_lone_byte(codes) & ~np.isin(codes, list(never))
        return cls(codes[known].astype(np.int32), never)

    def __len__(self) -> int:
        """The number of symbols, with <unk>, <s> and </s>."""
        return FIRST + self.characters.size

    def symbols(self, tokens: Sequence[bytes]) -> Int32[ndarray, " symbols"]:
        """The symbols of all tokens, with </s> after each."""
        texts = [_decode(token) for token in tokens]
        codes = _code_points(texts)
        index = np.searchsorted(self.characters, codes)
        known = np.append(self.characters, -1)[index] == codes
        widths = np.where(known, 1, _utf8_widths(codes))
        symbols = np.repeat(np.where(known, FIRST + index, UNKNOWN).astype(np.int32), widths)
        starts = np.concatenate([[0], np.cumsum(widths)])
        ends = starts[np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))]
        return np.insert(symbols, ends, END)

    def character(self, symbol: int) -> bytes:
        """The UTF-8 of a known character."""
        return chr(self.characters[symbol - FIRST]).encode()

    def log_prob_of_bytes(self, token: bytes) -> float:
        """log P of the bytes in a token's spelling, given that the symbols there are bytes."""
        log_prob, prefix = 0.0, b""
        for character in _decode(token):
            if ord(character) in self._known:  # has a symbol, whose probability the model gives
                prefix = b""
                continue
            for byte in character.encode("utf-8", "surrogateescape"):
                if byte in self._impossible:
                    return -math.inf
                log_prob -= math.log(256 - len(self._impossible) - len(self._completions.get(prefix, ())))
                prefix = self.prefix_after(prefix, byte)
        return log_prob

    def possible_bytes(self, prefix: bytes) -> list[int]:
        """The bytes that can follow `prefix`, the last bytes that could begin a known character."""
        return sorted(set(range(256)) - self._impossible - self._completions.get(prefix, set()))

    def prefix_after(self, prefix: bytes, byte: int) -> bytes:
        """The new prefix after one more byte: the last bytes that could begin a known character."""
        longer, alone = prefix + bytes([byte]), bytes([byte])
        return longer if longer in self._prefixes else alone if alone in self._prefixes else b""


def _decode(token: bytes) -> str:
    return token.decode("utf-8", "surrogateescape")


def _code_points(texts: Iterable[str]) -> Int64[ndarray, " characters"]:
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    return np.frombuffer(joined, "<u4").astype(np.int64)


def _utf8_widths(codes: Int64[ndarray, " characters"]) -> Int64[ndarray, " characters"]:
    """The number of bytes of each character; an escaped byte counts as one."""
    return np.where(_is_lone_byte(codes), 1, 1 + (codes >= 0x80) + (codes >= 0x800) + (codes >= 0x10000))


def _is_lone_byte(codes: Int64[ndarray, " characters"]) -> Bool[ndarray, " characters"]:
    """Whether a code point is a byte that is not UTF-8, as Python's "surrogateescape" decodes it."""
    return (codes >= 0xDC80) & (codes < 0xDD00)
