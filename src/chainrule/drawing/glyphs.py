"""Shows white space in tokens by symbols that every font has."""

from __future__ import annotations

# The character tokenizer writes white space as control pictures, which many fonts lack.
_SYMBOLS = str.maketrans({"␠": "·", "␊": "¶", "␉": "→", "␍": "←", "␀": "\\0"})


def legible(text: str) -> str:
    """The text with · for a space, ¶ for a line end, → for a tab: for display only."""
    return text.translate(_SYMBOLS)
