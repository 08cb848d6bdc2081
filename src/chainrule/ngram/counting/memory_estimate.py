"""Checks before counting whether the available memory suffices for a text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from chainrule.base.memory import MEMORY_HINT, available_memory, bytes_shown
from chainrule.errors import EstimationError
from chainrule.ngram.counting.count import count_ngrams
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

# Bytes a token (the stream and the arrays of occurrences) and an n-gram (the trie, counts, suffixes and probabilities):
# where probabilities take the place of counts, and where these are kept beside them.
_REUSED, _KEPT = (16, 20), (20, 32)
SAMPLE = 1 << 20  # how many tokens of a text tell how many n-grams it has


def check_memory(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, *, keeps_counts: bool = True
) -> None:
    """Raises EstimationError where counting and smoothing would need more memory than there is.

    keeps_counts: whether counts stay in memory beside probabilities.
    """
    available = available_memory()
    if available is None or fits_memory(stream, vocabulary_size, order, available, keeps_counts=keeps_counts):
        return
    ngrams = expected_ngrams(stream, vocabulary_size, order).at(stream.size)

    def needed(sizes: list[int]) -> int:
        return _needed(stream.size, sum(sizes), keeps_counts=keeps_counts)

    fitting = [n for n in range(1, order) if needed(ngrams[:n]) <= available]
    advice = f"take order={fitting[-1]}, or a shorter text" if fitting else "take a shorter text"
    raise EstimationError(
        f"counting {order}-grams of {stream.size:,} tokens needs about {bytes_shown(needed(ngrams))} "
        f"of memory, and {bytes_shown(available)} are free; {advice}, or a smaller vocabulary; "
        f"{MEMORY_HINT}"
    )


def fits_memory(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, memory: int, *, keeps_counts: bool = True
) -> bool:
    """Whether counting and smoothing need at most `memory` bytes; as `check_memory`."""
    if _needed(stream.size, vocabulary_size + (order - 1) * stream.size, keeps_counts=keeps_counts) <= memory:
        return True  # even if all n-grams are distinct
    ngrams = sum(expected_ngrams(stream, vocabulary_size, order).at(stream.size))
    return _needed(stream.size, ngrams, keeps_counts=keeps_counts) <= memory


def _needed(tokens: int, ngrams: int, *, keeps_counts: bool) -> int:
    token_bytes, ngram_bytes = _KEPT if keeps_counts else _REUSED
    return token_bytes * tokens + ngram_bytes * ngrams


def check_text_fits(tokens: int, token_bytes: int) -> None:
    """Raises EstimationError where a text of `tokens` tokens, at `token_bytes` bytes each, needs too much memory."""
    available = available_memory()
    if available is not None and tokens * token_bytes > available:
        raise EstimationError(
            f"training on about {tokens:,} tokens needs at least {bytes_shown(tokens * token_bytes)} of memory, and "
            f"{bytes_shown(available)} are free; take a shorter text, such as a part of it (chainrule split); "
            f"{MEMORY_HINT}"
        )


class ExpectedNgrams(NamedTuple):
    """How many n-grams of each order a text has, by its length: from a sample, and from a quarter of it.

    Their number grows as a power of the length (Heaps' law) that falls slowly, so that the estimate for longer texts
    is rather too high.
    """

    tokens: int  # of the sample
    sizes: list[int]
    exponents: list[float]

    def at(self, tokens: int) -> list[int]:
        """The n-grams of each order of so many tokens."""
        growth = tokens / self.tokens
        higher = zip(self.sizes[1:], self.exponents[1:], strict=True)
        return [self.sizes[0], *(int(size * growth**exponent) for size, exponent in higher)]


def expected_ngrams(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int) -> ExpectedNgrams:
    """Estimates the n-grams of each order from a sample of the middle of the text."""
    start = max(0, stream.size // 2 - SAMPLE // 2)
    sample = stream[start : start + SAMPLE].copy()
    quarter = sample[: -(-sample.size // 4)].copy()
    sample[-1] = quarter[-1] = END
    sizes, fewer = (count_ngrams(part, vocabulary_size, order).level_sizes for part in (sample, quarter))
    exponents = [
        math.log(max(size, 1) / max(few, 1)) / math.log(sample.size / quarter.size) if quarter.size < sample.size else 1
        for size, few in zip(sizes, fewer, strict=True)
    ]
    return ExpectedNgrams(sample.size, list(sizes), exponents)
