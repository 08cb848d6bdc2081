"""Whether the memory at hand will do for counting a text, asked before the work begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.memory import MEMORY_HINT, _gigabytes, available_memory
from chainrule.errors import EstimationError
from chainrule.ngram.counting.count import count_ngrams
from chainrule.protocol import END

if TYPE_CHECKING:
    from jaxtyping import Int32
    from numpy import ndarray

TOKEN_BYTES = 20  # of the stream and of the arrays of occurrences
_NODE_BYTES = 32  # of the trie, counts, suffixes and probabilities
_SAMPLE = 1 << 20  # tokens; the share of distinct n-grams falls with the length of a text, so that a sample's is enough


def check_memory(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int) -> None:
    """Raises EstimationError where counting and smoothing would need more memory than there is."""
    at_hand = available_memory()
    if at_hand is None or _needed(stream.size, vocabulary_size + (order - 1) * stream.size) <= at_hand:
        return  # whatever the text
    ngrams = _expected_ngrams(stream, vocabulary_size, order)
    if _needed(stream.size, sum(ngrams)) <= at_hand:
        return
    fitting = [n for n in range(1, order) if _needed(stream.size, sum(ngrams[:n])) <= at_hand]
    lower = f"order {fitting[-1]} would do (order={fitting[-1]}), or " if fitting else ""
    raise EstimationError(
        f"counting {order}-grams of {stream.size:,} tokens needs about {_gigabytes(_needed(stream.size, sum(ngrams)))} "
        f"of memory, and {_gigabytes(at_hand)} are free; {lower}a shorter text, or a smaller vocabulary; {MEMORY_HINT}"
    )


def check_text_fits(tokens: int, token_bytes: int) -> None:
    """Raises EstimationError where already a text of so many tokens, with so many bytes each, is too much."""
    at_hand = available_memory()
    if at_hand is not None and tokens * token_bytes > at_hand:
        raise EstimationError(
            f"training on about {tokens:,} tokens needs at least {_gigabytes(tokens * token_bytes)} of memory, and "
            f"{_gigabytes(at_hand)} are free; use a shorter text, such as a part of it (chainrule split); "
            f"{MEMORY_HINT}"
        )


def _needed(tokens: int, ngrams: int) -> int:
    return TOKEN_BYTES * tokens + _NODE_BYTES * ngrams


def _expected_ngrams(stream: Int32[ndarray, " tokens"], vocabulary_size: int, order: int) -> list[int]:
    """By order, from a sample out of the middle of the text; rather too many than too few."""
    start = max(0, stream.size // 2 - _SAMPLE // 2)
    sample = stream[start : start + _SAMPLE].copy()
    sample[-1] = END
    sizes = count_ngrams(sample, vocabulary_size, order).level_sizes
    return [vocabulary_size, *(size * stream.size // sample.size for size in sizes[1:])]
