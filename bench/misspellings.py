"""Misspellings of single words: Birkbeck's pairs, and what Norvig's functions make of a word."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from chainrule.features.correct.corrector.word_index import WordIndex

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def read(path: Path) -> str:
    return (gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")).read().decode("utf-8", "replace")


def birkbeck_pairs(path: Path) -> list[tuple[str, str]]:
    pairs, right = [], ""
    for line in read(path).lower().splitlines():
        if line.startswith("$"):
            right = line[1:].strip()
        elif line.strip() and not set("_ ") & set(line.strip() + right) and line.strip() != right:
            pairs.append((line.strip(), right))
    return pairs


def norvigs_choice(word: str, counts: dict[str, int], index: WordIndex, within_two: list[int]) -> str:
    """The known word itself, or the most frequent one at distance 1, or at distance 2: Norvig's spell.py."""
    if word in counts:
        return word
    cuts = [(word[:i], word[i:]) for i in range(len(word) + 1)]
    near = {left + right[1:] for left, right in cuts if right}
    near |= {left + right[1] + right[0] + right[2:] for left, right in cuts if len(right) > 1}
    near |= {left + letter + rest for left, right in cuts for letter in LETTERS for rest in (right, right[1:])}
    candidates = [one for one in near if one in counts] or [index._lower[i] for i in within_two] or [word]
    return max(candidates, key=lambda one: counts.get(one, 0))
