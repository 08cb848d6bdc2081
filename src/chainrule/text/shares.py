"""Shares of a whole, as exact fractions, so that every machine divides alike."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from chainrule.errors import SettingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Share = float | str | Fraction  # such as 0.3 or "1/3"


def exact_shares(shares: Iterable[Share]) -> tuple[Fraction, ...]:
    """Raises SettingError where one is not above zero, or where they do not add up to one."""
    shares = tuple(shares)
    fractions = tuple(map(_fraction, shares))
    if not fractions or sum(fractions) != 1:
        told = " + ".join(map(str, shares)) or "nothing"
        raise SettingError(f"the shares {told} add up to {float(sum(fractions)):g}, expected 1; a third is 1/3")
    return fractions


def _fraction(share: Share) -> Fraction:
    try:
        fraction = Fraction(str(share))
    except (ValueError, ZeroDivisionError) as error:
        raise SettingError(f"a share is {share!r}, expected a number above 0, such as 0.3 or 1/3") from error
    if fraction <= 0:
        raise SettingError(f"a share is {share}, expected a number above 0")
    return fraction


def turns(shares: Sequence[Fraction]) -> Iterator[int]:
    """Whose turn it is, for ever, so that nobody ever has less than its share, rounded down.

    Earliest deadline first: a share of 1/10 must have had its turn after ten, and mostly gets the tenth. Of two with
    the same deadline, the one that stands first takes its turn first.
    """
    taken = [0] * len(shares)
    while True:
        due = [-(-(taken[i] + 1) * share.denominator // share.numerator) for i, share in enumerate(shares)]
        turn = due.index(min(due))
        taken[turn] += 1
        yield turn
