"""Tokens for people's eyes: what stands for white space is shown by symbols that every font has."""

from __future__ import annotations

# The character tokenizer writes white space as control pictures, of which plain systems have no font.
_KNOWN = str.maketrans({"␠": "·", "␊": "¶", "␉": "→", "␍": "←", "␀": "\\0"})


def legible(text: str) -> str:
    """The text with · for a space, ¶ for the end of a line, → for a tab: to be read, not to be given back."""
    return text.translate(_KNOWN)
