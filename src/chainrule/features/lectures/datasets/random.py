"""Random choices that are the same in all versions of Python and NumPy, and on all machines."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Random:
    """A random generator of which only `random()` is used: Python guarantees its numbers."""

    def __init__(self, seed: int, name: str) -> None:
        """Seed the generator. name: that of the data set, so that two sets with one seed differ."""
        self._random = random.Random(f"{name} {seed}")

    def below(self, limit: int) -> int:
        """Return a whole number from 0 to limit - 1."""
        return int(self._random.random() * limit)

    def choice(self, options: Sequence[T]) -> T:
        """Return one of the options, each as likely."""
        return options[self.below(len(options))]
