"""Dates as people write them, with their ISO form: 5 March 2021 is 2021-03-05."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chainrule.datasets.chance import Chance

_MONTHS: tuple[str, ...] = ("January", "February", "March", "April", "May", "June")
_MONTHS += ("July", "August", "September", "October", "November", "December")
_FORMATS = (
    "{day} {month} {year}",
    "{month} {day}, {year}",
    "{day}. {number}. {year}",
    "{short} {day} {year}",
    "the {day}{suffix} of {month} {year}",
    "{day:02}/{number:02}/{year}",
)
_FIRST, _DAYS = date(1900, 1, 1), 73_049  # to 2099-12-31


def written_date(chance: Chance) -> tuple[str, str]:
    """A date of 1900 to 2099 in one of six formats, and in ISO's."""
    day = _FIRST + timedelta(days=chance.below(_DAYS))
    month = _MONTHS[day.month - 1]
    text = chance.choice(_FORMATS).format(
        day=day.day, month=month, short=month[:3], number=day.month, year=day.year, suffix=_suffix(day.day)
    )
    return text, day.isoformat()


def _suffix(day: int) -> str:
    if day in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
