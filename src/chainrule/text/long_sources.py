"""Sources that are longer than a model reads: cut at one side, or reduced to their most central sentences."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Int32
    from numpy import ndarray

    Tokens = Int32[ndarray, " T"]

_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")


class Shortened(NamedTuple):
    """Sources as ids, and how many of them were longer than the model reads."""

    rows: list[Tokens]
    shortened: int


def shorten(
    texts: Sequence[str],
    rows: Sequence[Tokens],
    most: int,
    how: str,
    encode: Callable[[list[str]], list[Tokens]],
) -> Shortened:
    """The sources with at most `most` tokens each.

    texts, rows: the same sources as texts and as ids. how: end or front, which is cut off; sentences, of which the most
    central are kept; or refuse, to leave sources as they are. encode: texts -> ids.
    """
    is_long = [how != "refuse" and len(row) > most for row in rows]
    if not any(is_long):
        return Shortened(list(rows), 0)
    shortened = []
    for text, row, too_long in zip(texts, rows, is_long, strict=True):
        if not too_long:
            shortened.append(row)
        elif how == "front":
            shortened.append(row[len(row) - most :])
        else:
            kept = encode([central_sentences(text, most, encode)])[0] if how == "sentences" else row
            shortened.append(kept[:most])
    return Shortened(shortened, sum(is_long))


def central_sentences(text: str, most: int, encode: Callable[[list[str]], list[Tokens]]) -> str:
    """The most central sentences of a text, in their order, with at most `most` tokens in all.

    SumBasic (Nenkova and Vanderwende 2005): the sentence whose tokens have the largest mean probability in the text is
    taken, the probabilities of its tokens are squared, and so on while a sentence fits. Where none does, the text.
    """
    sentences = [sentence for sentence in _BETWEEN_SENTENCES.split(text) if sentence.strip()]
    rows = encode(sentences)
    counts = Counter(token for row in rows for token in row.tolist())
    total = sum(counts.values())
    probabilities = {token: count / total for token, count in counts.items()}
    left, kept = most, set[int]()
    while True:
        open_ones = [i for i, row in enumerate(rows) if i not in kept and 0 < len(row) <= left]
        if not open_ones:
            return " ".join(sentences[i] for i in sorted(kept)) if kept else text
        best = max(open_ones, key=lambda i: float(np.mean([probabilities[token] for token in rows[i].tolist()])))
        kept.add(best)
        left -= len(rows[best])
        for token in set(rows[best].tolist()):
            probabilities[token] **= 2
