"""Checks before counting whether the available memory suffices for a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.memory import MEMORY_HINT, _gigabytes, available_memory
from chainrule.errors import EstimationError
from chainrule.ngram.counting.count import count_ngrams
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

# Bytes a token (the stream and the arrays of occurrences) and an n-gram (the trie, counts, suffixes and probabilities):
# where probabilities take the place of counts, and where these are kept beside them.
_REUSED, _KEPT = (16, 20), (20, 32)
_SAMPLE = 1 << 20  # tokens; a longer text has a smaller share of distinct n-grams, so a sample gives an upper bound


def check_memory(
    stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int, *, keeps_counts: bool = True
) -> None:
    """Raises EstimationError where counting and smoothing would need more memory than there is.

    keeps_counts: whether counts stay in memory beside probabilities.
    """
    token_bytes, ngram_bytes = _KEPT if keeps_counts else _REUSED

    def needed(ngrams: int) -> int:
        return token_bytes * stream.size + ngram_bytes * ngrams

    available = available_memory()
    if available is None or needed(vocabulary_size + (order - 1) * stream.size) <= available:
        return  # even if all n-grams are distinct
    ngrams = _expected_ngrams(stream, vocabulary_size, order)
    if needed(sum(ngrams)) <= available:
        return
    fitting = [n for n in range(1, order) if needed(sum(ngrams[:n])) <= available]
    advice = f"take order={fitting[-1]}, or a shorter text" if fitting else "take a shorter text"
    raise EstimationError(
        f"counting {order}-grams of {stream.size:,} tokens needs about {_gigabytes(needed(sum(ngrams)))} "
        f"of memory, and {_gigabytes(available)} are free; {advice}, or a smaller vocabulary; "
        f"{MEMORY_HINT}"
    )


def check_text_fits(tokens: int, token_bytes: int) -> None:
    """Raises EstimationError where a text of `tokens` tokens, at `token_bytes` bytes each, needs too much memory."""
    available = available_memory()
    if available is not None and tokens * token_bytes > available:
        raise EstimationError(
            f"training on about {tokens:,} tokens needs at least {_gigabytes(tokens * token_bytes)} of memory, and "
            f"{_gigabytes(available)} are free; take a shorter text, such as a part of it (chainrule split); "
            f"{MEMORY_HINT}"
        )


def _expected_ngrams(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int) -> list[int]:
    """Estimates the n-grams of each order from a sample of the middle of the text, rather too high than too low."""
    start = max(0, stream.size // 2 - _SAMPLE // 2)
    sample = stream[start : start + _SAMPLE].copy()
    sample[-1] = END
    sizes = count_ngrams(sample, vocabulary_size, order).level_sizes
    return [vocabulary_size, *(size * stream.size // sample.size for size in sizes[1:])]
