"""Estimates discounts from counts of counts, Good-Turing's too.

Where counts of counts do not allow an estimate, there are fallbacks. Katz backoff has Good-Turing discounts: Good, The
population frequencies of species (1953); Katz, Estimation of probabilities from sparse data for the language model
component of a speech recognizer (1987).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.scratch import parts_released
from chainrule.base.threads import run
from chainrule.ngram.config import ONE_DISCOUNT
from chainrule.ngram.estimation.estimates import Discounts
from chainrule.ngram.estimation.estimation_kernels import tally_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig

FALLBACK = (0.5, 1.0, 1.5)  # D1, D2, D3+
SINGLE_FALLBACK = 0.75
RELIABLE = 5  # Katz's k: larger counts are not discounted
LARGEST_TALLIED = RELIABLE + 1  # of the counts whose counts give discounts


def discounts_of(
    config: NGramConfig, order: int, n: Sequence[int], fallback: tuple[float, float, float] = FALLBACK
) -> Discounts:
    """Return the discounts of an order, or a fallback and the reason.

    n: how many n-grams have a count of 1, 2, ..., LARGEST_TALLIED. fallback: for three discounts.
    """
    if config.smoothing in ONE_DISCOUNT:
        given = config.given_discount(order)
        return leave_one_out_discount(order, n[0], n[1]) if given is None else Discounts(order, (given,))
    return katz_discounts(order, n) if config.smoothing == "good-turing" else estimate_discounts(order, n[:4], fallback)


def estimate_discounts(order: int, n: Sequence[int], fallback: tuple[float, float, float] = FALLBACK) -> Discounts:
    """Return D(j) = j - (j+1) y n(j+1) / n(j), where y = n1 / (n1 + 2 n2); if impossible, the fallback and the reason.

    Chen and Goodman (1998), section 3. n: the numbers of n-grams with an adjusted count of 1, 2, 3 and 4.
    """
    instead = partial(Discounts, order, fallback, fallback=str(fallback))
    for count in (1, 2, 3):
        if n[count - 1] == 0:
            return instead(f"{_none_has(order)} an adjusted count of {count}, so no discount can be estimated")
    y = n[0] / (n[0] + 2 * n[1])
    values = tuple(j - (j + 1) * y * n[j] / n[j - 1] for j in (1, 2, 3))
    for j, value in enumerate(values, start=1):
        if not 0 <= value <= j:
            return instead(f"order {order}: the discount for a count of {j} would be {value:.4g}, outside 0 to {j}")
    return Discounts(order, values)


def leave_one_out_discount(order: int, once: int, twice: int) -> Discounts:
    """Return D = n1 / (n1 + 2 n2); if that is impossible, the fallback and the reason.

    The leave-one-out estimate of Ney, Essen and Kneser (1994), an upper bound of the optimal discount. once, twice: the
    numbers n1 and n2 of n-grams with a count of 1 and of 2.
    """
    if once == 0 or twice == 0:
        problem = f"{_none_has(order)} a count of {1 if once == 0 else 2}, so no discount can be estimated"
        return Discounts(order, (SINGLE_FALLBACK,), problem, str(SINGLE_FALLBACK))
    return Discounts(order, (once / (once + 2 * twice),))


def _none_has(order: int) -> str:
    return f"order {order}: no {order}-gram has"


def counts_of_counts(
    adjusted: Int[ndarray, " ngrams"], *, first: int = 0, replacement: tuple[int, int] | None = None
) -> list[int]:
    """Return the numbers of n-grams with a count of 1, 2, ..., LARGEST_TALLIED.

    first: the node of adjusted[0]. replacement: a node, and the count to use for it instead; see kenlm_compatible.
    """
    n = tally(adjusted, LARGEST_TALLIED)
    if replacement is not None:
        node, count = replacement
        n[min(adjusted[node - first], LARGEST_TALLIED + 1)] -= 1
        n[min(count, LARGEST_TALLIED + 1)] += 1
    return [int(value) for value in n[1:-1]]


def tally(adjusted: Int[ndarray, " ngrams"], largest: int) -> Int64[ndarray, " counts"]:
    """Return the numbers of counts that are 0, 1, ..., largest, and above."""
    n = np.zeros(largest + 2, np.int64)
    for part in parts_released(adjusted):
        n += run(tally_counts, part, largest)
    return n


def katz_discounts(order: int, n: Sequence[int]) -> Discounts:
    """Return Katz's discounts of counts 1 .. k: r - d(r) r; larger counts have a discount of 0.

    d(r) = (r*/r - q) / (1 - q), where r* = (r+1) n(r+1) / n(r) and q = (k+1) n(k+1) / n(1). k is 5, or the largest
    smaller value with 0 < d(r) < 1 for all r; if there is none, nothing is discounted, with the reason. n: the numbers
    of n-grams with a count of 1, 2, ..., 6.
    """
    for k in range(len(n) - 1, 0, -1):
        if 0 in n[: k + 1]:
            continue
        q = (k + 1) * n[k] / n[0]
        if q >= 1:
            continue
        ratios = [((r + 1) * n[r] / n[r - 1] / r - q) / (1 - q) for r in range(1, k + 1)]
        if all(0 < ratio < 1 for ratio in ratios):
            return Discounts(order, (*(r - ratio * r for r, ratio in enumerate(ratios, start=1)), 0.0))
    counted = ", ".join(f"{ngrams:,}" for ngrams in n)
    return Discounts(
        order,
        (0.0,),
        f"order {order}: {counted} {order}-grams have counts of 1 to {len(n)}, from which no discount can be estimated",
        "none at all",
    )
