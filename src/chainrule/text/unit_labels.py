"""The labels of the units of an input: a tuple of names, or, for many units, positions in a list of names."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jaxtyping import Int64, UInt8
    from numpy import ndarray


class UnitLabels(Sequence[str]):
    """The labels of many units, such as the pixels of a picture, row by row. Its repr has a digest of them.

    good:  UnitLabels(("sky", "sea"), np.array([0, 0, 1], np.uint8))
    """

    def __init__(self, names: Sequence[str], values: UInt8[ndarray, " units"]) -> None:
        """values: the position of each unit's label among the names."""
        self.names, self.values = tuple(names), values

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> UnitLabels: ...
    def __getitem__(self, index: int | slice) -> str | UnitLabels:
        if isinstance(index, slice):
            return UnitLabels(self.names, self.values[index])
        return self.names[self.values[index]]

    def __repr__(self) -> str:
        return f"UnitLabels({self.names!r}, {hashlib.sha256(self.values.tobytes()).hexdigest()})"


def distinct_labels(labels: Sequence[str]) -> set[str]:
    """The different ones."""
    if isinstance(labels, UnitLabels):
        return {labels.names[value] for value in np.unique(labels.values).tolist()}
    return set(labels)


def label_indices(labels: Sequence[str], index: Mapping[str, int]) -> Int64[ndarray, " units"]:
    """The index of each unit's label. Raises KeyError."""
    if isinstance(labels, UnitLabels):
        table = np.zeros(len(labels.names), np.int64)
        for label in distinct_labels(labels):
            table[labels.names.index(label)] = index[label]
        return table[labels.values]
    return np.array([index[label] for label in labels], np.int64)
