"""Where the bits of a text go: by a number that each token has, such as its place in the document.

Numbers go in groups that double: 0, 1, 2-3, 4-7, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float64, Int64
    from numpy import ndarray

GROUPS = 40


@dataclass(frozen=True)
class Breakdown:
    """What the tokens of each group cost, and the bytes of the text that they are, white space before them counted."""

    nats: Float64[ndarray, " groups"]
    bytes: Int64[ndarray, " groups"]

    @classmethod
    def of(cls, numbers: Int64[ndarray, " T"], nats: Float64[ndarray, " T"], sizes: Int64[ndarray, " T"]) -> Breakdown:
        """numbers: of each token, from 0 on."""
        _, groups = np.frexp(numbers)  # 0 for 0, 1 for 1, 2 for 2 and 3, ...
        groups = np.minimum(groups, GROUPS - 1)
        return cls(np.bincount(groups, nats, GROUPS), np.bincount(groups, sizes, GROUPS).astype(np.int64))

    def __add__(self, other: Breakdown) -> Breakdown:
        return Breakdown(self.nats + other.nats, self.bytes + other.bytes)

    @property
    def groups(self) -> list[int]:
        """Those that have bytes."""
        return np.flatnonzero(self.bytes).tolist()

    def bits_per_byte(self, group: int) -> float:
        """Infinite where a token of the group is impossible; NaN where the group has no bytes."""
        if not self.bytes[group]:
            return math.nan
        return float(self.nats[group] / math.log(2) / self.bytes[group])

    def as_json(self) -> list[dict[str, Any]]:
        """A row for each group that has bytes: the first and the last of its numbers, and its figures."""
        return [
            {
                "first": bounds(group)[0],
                "last": bounds(group)[1],
                "bytes": int(self.bytes[group]),
                "bits_per_byte": bits if math.isfinite(bits := self.bits_per_byte(group)) else None,
            }
            for group in self.groups
        ]


def bounds(group: int) -> tuple[int, int]:
    """The first and the last of a group's numbers."""
    return (1 << group >> 1, (1 << group) - 1)


def group_name(group: int) -> str:
    first, last = bounds(group)
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"
