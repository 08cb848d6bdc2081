"""Estimates discounts from counts of counts, with fallbacks where that is impossible."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chainrule.base.scratch import parts_released
from chainrule.base.threads import run
from chainrule.ngram.estimation.discount_kernels import tally_counts
from chainrule.ngram.estimation.estimates import Discounts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int, Int64
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig


FALLBACK = (0.5, 1.0, 1.5)  # D1, D2, D3+
SINGLE_FALLBACK = 0.75


def estimate_discounts(order: int, n: Sequence[int], fallback: tuple[float, float, float] = FALLBACK) -> Discounts:
    """D(j) = j - (j+1) y n(j+1) / n(j), where y = n1 / (n1 + 2 n2); if impossible, the fallback and the reason.

    Chen and Goodman (1998), section 3. n: the numbers of n-grams with an adjusted count of 1, 2, 3 and 4.
    """
    for count in (1, 2, 3):
        if n[count - 1] == 0:
            return Discounts(
                order,
                fallback,
                f"order {order}: no {order}-gram has an adjusted count of {count}, so no discount can be estimated",
                str(fallback),
            )
    y = n[0] / (n[0] + 2 * n[1])
    values = tuple(j - (j + 1) * y * n[j] / n[j - 1] for j in (1, 2, 3))
    for j, value in enumerate(values, start=1):
        if not 0 <= value <= j:
            return Discounts(
                order,
                fallback,
                f"order {order}: the discount for a count of {j} would be {value:.4g}, outside 0 to {j}",
                str(fallback),
            )
    return Discounts(order, (values[0], values[1], values[2]))


def single_discount(config: NGramConfig, order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
    """config.discount, or that of `leave_one_out_discount`."""
    given = config.given_discount(order)
    if given is not None:
        return Discounts(order, (given,))
    return leave_one_out_discount(order, *counts_of_counts(adjusted, 2))


def leave_one_out_discount(order: int, once: int, twice: int) -> Discounts:
    """D = n1 / (n1 + 2 n2); if that is impossible, the fallback and the reason.

    The leave-one-out estimate of Ney, Essen and Kneser (1994), an upper bound of the optimal discount. once, twice: the
    numbers n1 and n2 of n-grams with a count of 1 and of 2.
    """
    if once == 0 or twice == 0:
        return Discounts(
            order,
            (SINGLE_FALLBACK,),
            f"order {order}: no {order}-gram has a count of {1 if once == 0 else 2}, so no discount can be estimated",
            str(SINGLE_FALLBACK),
        )
    return Discounts(order, (once / (once + 2 * twice),))


def counts_of_counts(adjusted: Int[ndarray, " ngrams"], largest: int) -> list[int]:
    """The numbers of n-grams with a count of 1, 2, ..., `largest`."""
    return [int(value) for value in tally(adjusted, largest)[1 : largest + 1]]


def counts_of_counts_replacing(
    adjusted: Int[ndarray, " ngrams"], first: int, replacement: tuple[int, int] | None
) -> list[int]:
    """The numbers of n-grams with an adjusted count of 1, 2, 3 and 4.

    first: the node of adjusted[0]. replacement: a node, and the count to use for it instead; see kenlm_compatible.
    """
    n = tally(adjusted, 4)
    if replacement is not None:
        node, count = replacement
        n[min(adjusted[node - first], 5)] -= 1
        n[min(count, 5)] += 1
    return [int(value) for value in n[1:5]]


def tally(adjusted: Int[ndarray, " ngrams"], largest: int) -> Int64[ndarray, " counts"]:
    """The numbers of counts that are 0, 1, ..., largest, and above."""
    n = np.zeros(largest + 2, np.int64)
    for part in parts_released(adjusted):
        n += run(tally_counts, part, largest)
    return n
