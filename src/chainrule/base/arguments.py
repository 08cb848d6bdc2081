"""Checks of the arguments that several methods take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def as_texts(texts: Iterable[str]) -> Sequence[str]:
    """The texts as a list. Raises TypeError if it is a single text, or one of them is not a str."""
    if isinstance(texts, str):
        raise TypeError("this takes several texts; put a single one in a list")
    if not isinstance(texts, Iterable):
        raise TypeError(f"this takes several texts, in a list or the like; found {texts!r}")
    texts = list(texts)
    odd = [text for text in texts if not isinstance(text, str)]
    if odd:
        raise TypeError(f"this takes texts, each a str; found {odd[0]!r}")
    return texts
