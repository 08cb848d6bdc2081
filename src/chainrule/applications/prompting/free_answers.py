"""Free answers: whether a text that the model wrote agrees with the expected one."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Literal

Match = Literal["exact", "begins", "number"]
# A sign counts if no digit or letter comes before it, so that 3-5 has no -5.
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|(?<!\w)\d+(?:\.\d+)?")


def agrees(answer: str, expected: str, match: Match) -> bool:
    """exact: equal but for white space at their ends. begins: the answer begins with the expected one.

    number: the first number of the answer is the last one of what is expected, as numbers: 143.0 is 143.
    """
    if match == "exact":
        return answer.strip() == expected.strip()
    if match == "begins":
        return answer.strip().startswith(expected.strip())
    numbers, wanted = _numbers(answer), _numbers(expected)
    return bool(numbers) and bool(wanted) and numbers[0] == wanted[-1]


def _numbers(text: str) -> list[Decimal]:
    return [Decimal(number.replace(",", "")) for number in _NUMBER.findall(text)]
