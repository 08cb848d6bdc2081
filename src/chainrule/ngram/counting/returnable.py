"""Large arrays whose memory can be given back to the system in parts, before all of them is done with."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray
    from numpy.typing import DTypeLike


class Returnable:
    """An array of its own memory."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        """What is in it is 0; memory is taken only for what is written."""
        self._item_size = np.dtype(dtype).itemsize
        self._memory = mmap.mmap(-1, max(size * self._item_size, 1), access=mmap.ACCESS_COPY)  # private, unlike others
        if hasattr(mmap, "MADV_HUGEPAGE"):  # look-ups far apart wait less for the tables of large pages
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.array: Int[ndarray, " size"] = np.frombuffer(self._memory, dtype, size)

    def give_back(self, start: int, stop: int) -> None:
        """Nobody reads the elements start .. stop again. Where the system takes no memory back, nothing happens."""
        first = -(-start * self._item_size // mmap.PAGESIZE) * mmap.PAGESIZE
        last = stop * self._item_size // mmap.PAGESIZE * mmap.PAGESIZE
        if stop == self.array.size:
            last = -(-len(self._memory) // mmap.PAGESIZE) * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and first < last:
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_DONTNEED, first, min(last, len(self._memory)) - first)
