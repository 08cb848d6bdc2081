"""Discounts from counts of counts, and what replaces those that cannot be estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chainrule.base.jit import run
from chainrule.ngram.estimation.estimates import Discounts
from chainrule.ngram.estimation.interpolation_kernels import counts_of_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int
    from numpy import ndarray

    from chainrule.ngram.config import NGramConfig


FALLBACK = (0.5, 1.0, 1.5)


FALLBACK_OF_ONE = 0.75


def estimated_discounts(order: int, n: Sequence[int], fallback: tuple[float, float, float] = FALLBACK) -> Discounts:
    """D(j) = j - (j+1) y n(j+1) / n(j) with y = n1 / (n1 + 2 n2), or the fallback with the reason.

    Chen and Goodman (1998), modified Kneser-Ney. n: how many n-grams have an adjusted count of 1, 2, 3, 4.
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


def one_discount(config: NGramConfig, order: int, adjusted: Int[ndarray, " ngrams"]) -> Discounts:
    """The constant that was given, or D = n1 / (n1 + 2 n2), or the fallback with the reason.

    The leave-one-out estimate of Ney, Essen and Kneser (1994), an upper bound of the best.
    """
    given = config.given_discount(order)
    if given is not None:
        return Discounts(order, (given,))
    once, twice = count_of_counts(adjusted, 2)
    if once == 0 or twice == 0:
        return Discounts(
            order,
            (FALLBACK_OF_ONE,),
            f"order {order}: no {order}-gram has a count of {1 if once == 0 else 2}, so no discount can be estimated",
            str(FALLBACK_OF_ONE),
        )
    return Discounts(order, (once / (once + 2 * twice),))


def count_of_counts(adjusted: Int[ndarray, " ngrams"], largest: int) -> list[int]:
    """How many n-grams have a count of 1, 2, ..., `largest`."""
    return [int(value) for value in run(counts_of_counts, adjusted, largest)[1 : largest + 1]]


def _counts_of_counts(adjusted: Int[ndarray, " ngrams"], first: int, last: tuple[int, int] | None) -> list[int]:
    """How many n-grams have an adjusted count of 1, 2, 3, 4.

    first: their first node. last: a node that is taken with another count, and that count.
    """
    n = run(counts_of_counts, adjusted, 4)
    if last is not None:
        node, count = last
        n[min(adjusted[node - first], 5)] -= 1
        n[min(count, 5)] += 1
    return [int(value) for value in n[1:5]]
