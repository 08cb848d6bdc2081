"""ROUGE-1, ROUGE-2 and ROUGE-L (Lin, ROUGE: A Package for Automatic Evaluation of Summaries, 2004).

Two conventions share the name ROUGE-L. That of summaries is F1 of one reference; of several, the best (as the package
rouge-score). That of captions is F with beta 1.2 of the best precision and the best recall, which may come from
different references (as pycocoevalcap).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

BETA = 1.2  # of captions: how much recall weighs against precision


def summary_rouge(words: list[str], references: Sequence[list[str]]) -> tuple[float, float, float]:
    """F1 of 0 .. 1 of ROUGE-1, ROUGE-2 and ROUGE-L, each with the reference that gives most."""
    rows = [
        (
            _f1(_overlap(words, reference), len(words), len(reference)),
            _f1(_overlap([*pairwise(words)], [*pairwise(reference)]), len(words) - 1, len(reference) - 1),
            _f1(longest_common_subsequence(words, reference), len(words), len(reference)),
        )
        for reference in references
    ]
    first, second, longest = map(max, zip(*rows, strict=True))
    return first, second, longest


def caption_rouge_l(words: list[str], references: Sequence[list[str]]) -> float:
    """ROUGE-L of 0 .. 1 of a caption: (1 + beta^2) P R / (R + beta^2 P)."""
    if not words:
        return 0.0
    lengths = [longest_common_subsequence(words, reference) for reference in references]
    precision = max(lengths) / len(words)
    recall = max(
        length / len(reference) if reference else 0.0 for length, reference in zip(lengths, references, strict=True)
    )
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision) if precision else 0.0


def longest_common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Its length, by a row of bits (Hyyro, Bit-Parallel LCS-length Computation Revisited, 2004).

    Bit i of the row is 0 where the length grows at item i of the first sequence.
    """
    places: dict[Hashable, int] = {}
    for i, item in enumerate(first):
        places[item] = places.get(item, 0) | 1 << i
    every = (1 << len(first)) - 1
    row = every
    for item in second:
        matches = row & places.get(item, 0)
        row = (row + matches | row - matches) & every
    return len(first) - row.bit_count()


def _overlap(items: Sequence[Hashable], others: Sequence[Hashable]) -> int:
    return (Counter(items) & Counter(others)).total()


def _f1(matches: int, size: int, reference_size: int) -> float:
    return 2 * matches / (size + reference_size) if matches else 0.0
