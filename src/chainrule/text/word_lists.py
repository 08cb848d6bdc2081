"""Files of words. Imports nothing heavy: flags name what is here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_words(path: Path) -> tuple[str, ...]:
    """Return the words of a file, between white space. Raises TextError."""
    from chainrule.text.corpus.plain_text import lines_of

    return tuple(word for line in lines_of(path) for word in line.split())
