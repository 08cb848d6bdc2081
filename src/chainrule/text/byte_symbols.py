"""Bytes as visible characters: GPT-2's alphabet, which all byte-level subword tokenizers use.

Bytes that are visible characters in Latin-1 stand for themselves; the other 68 become the characters from U+0100 on, in
order. No symbol is white space, so that tokens can be separated by it. Source: Radford et al., Language Models are
Unsupervised Multitask Learners (2019), and its published encoder.
"""

from __future__ import annotations

_VISIBLE = (*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1))
_HIDDEN = tuple(byte for byte in range(256) if byte not in _VISIBLE)

BYTE_OF_SYMBOL: dict[str, int] = {
    **{chr(byte): byte for byte in _VISIBLE},
    **{chr(0x100 + i): byte for i, byte in enumerate(_HIDDEN)},
}
SYMBOLS = "".join(sorted(BYTE_OF_SYMBOL, key=BYTE_OF_SYMBOL.__getitem__))  # by byte


def in_symbols(data: bytes) -> str:
    """Bytes as symbols: b"a b" becomes aĠb."""
    return "".join(SYMBOLS[byte] for byte in data)
