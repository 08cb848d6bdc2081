"""How bytes are written as visible characters: GPT-2's alphabet, which byte-level subword tokenizers share.

The bytes that are visible in Latin-1 stand for themselves, the 68 others for the characters from U+0100 on, in order.
No symbol is white space, so that tokens made of them can stand in any file of tokens. Source: Radford et al., Language
Models are Unsupervised Multitask Learners (2019), and the encoder that came with it.
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
    """Bytes written as symbols: b"a b" is aĠb."""
    return "".join(SYMBOLS[byte] for byte in data)
