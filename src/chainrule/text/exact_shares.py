"""Shares of a whole as exact fractions, so that every machine divides alike."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Share = float | str | Fraction  # such as 0.3 or "1/3"

# No exponents: a huge one would make a fraction with as many digits.
_WRITTEN = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+|[0-9]+/[0-9]+")
_LONGEST = 40  # characters


def exact_shares(shares: Iterable[Share]) -> tuple[Fraction, ...]:
    """The shares as fractions. Raises SettingError if one is not in (0, 1], or if they do not add up to one."""
    shares = tuple(shares)
    fractions = tuple(map(_fraction, shares))
    total = sum(fractions)
    if total != 1:
        written = " + ".join(map(str, shares)) or "nothing"
        amount = f"{float(total):g}"
        if amount == "1":
            amount = f"a little {'more' if total > 1 else 'less'} than 1"
        raise SettingError(f"the shares {written} add up to {amount}, expected 1; a third is 1/3")
    return fractions


def _fraction(share: Share) -> Fraction:
    expected = "expected a number above 0 and at most 1, such as 0.3 or 1/3, without an exponent"
    if isinstance(share, str) and not (len(share) <= _LONGEST and _WRITTEN.fullmatch(share)):
        shown = share if len(share) <= _LONGEST else share[:_LONGEST] + "..."
        raise SettingError(f"a share is {shown!r}, {expected}, in at most {_LONGEST} characters")
    try:
        fraction = Fraction(str(share))
    except (ValueError, ZeroDivisionError) as error:
        raise SettingError(f"a share is {share!r}, {expected}") from error
    if not 0 < fraction <= 1:
        raise SettingError(f"a share is {share}, {expected}")
    return fraction


def turns(shares: Sequence[Fraction]) -> Iterator[int]:
    """An endless schedule: the index of the share whose turn it is. After n turns, a share s has had at least n s - 1.

    Earliest deadline first: a share of 1/10 must have a turn among the first ten, and mostly gets the tenth. Ties go to
    the first share.
    """
    counts = [0] * len(shares)
    while True:
        deadlines = [-(-(counts[i] + 1) * share.denominator // share.numerator) for i, share in enumerate(shares)]
        turn = deadlines.index(min(deadlines))
        counts[turn] += 1
        yield turn
