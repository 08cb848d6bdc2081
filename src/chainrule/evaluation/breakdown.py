"""Bits per byte broken down by a property of tokens: their position in the document, or frequency in training.

Values are grouped into ranges that double: 0, 1, 2-3, 4-7, and so on.
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
    """The cost of the tokens of each group, and their size in bytes, including the white space before them."""

    nats: Float64[ndarray, " groups"]
    bytes: Int64[ndarray, " groups"]

    @classmethod
    def of(cls, values: Int64[ndarray, " T"], nats: Float64[ndarray, " T"], sizes: Int64[ndarray, " T"]) -> Breakdown:
        """values: the property of each token, 0 or more. nats: its cost. sizes: its bytes."""
        _, groups = np.frexp(values)  # 0 for 0, 1 for 1, 2 for 2 and 3, ...
        groups = np.minimum(groups, GROUPS - 1)
        return cls(np.bincount(groups, nats, GROUPS), np.bincount(groups, sizes, GROUPS).astype(np.int64))

    def __add__(self, other: Breakdown) -> Breakdown:
        return Breakdown(self.nats + other.nats, self.bytes + other.bytes)

    @property
    def groups(self) -> list[int]:
        """The groups that have bytes."""
        return np.flatnonzero(self.bytes).tolist()

    def bits_per_byte(self, group: int) -> float:
        """Infinite if a token of the group has probability zero; NaN if the group has no bytes."""
        if not self.bytes[group]:
            return math.nan
        return float(self.nats[group] / math.log(2) / self.bytes[group])

    def as_json(self) -> list[dict[str, Any]]:
        """For each group that has bytes: its first and last value, and its figures."""
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
    """The first and the last value of a group."""
    return (1 << group >> 1, (1 << group) - 1)


def group_name(group: int) -> str:
    first, last = bounds(group)
    return f"{first:,}" if first == last else f"{first:,}-{last:,}"
