"""Numbers written as text, in files and flags."""

from __future__ import annotations


def number_of(text: str | bytes) -> float:
    """Return the number that a text is. Unlike `float`, takes no underscores: 1_0 is none. Raises ValueError."""
    _check(text)
    return float(text)


def whole_number_of(text: str | bytes) -> int:
    """Return the whole number that a text is, as `number_of` does for any number."""
    _check(text)
    return int(text)


def is_number(text: str | bytes) -> bool:
    """Return whether a text is a number, also one that is not finite."""
    try:
        number_of(text)
    except ValueError:
        return False
    return True


def _check(text: str | bytes) -> None:
    if ("_" if isinstance(text, str) else b"_") in text:  # type: ignore[operator]
        raise ValueError(f"{text!r} has an underscore, and is no number")
