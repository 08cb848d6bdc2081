"""Large arrays whose memory can be released to the system in parts, before the whole array is."""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Int
    from numpy import ndarray
    from numpy.typing import DTypeLike


class ReleasableArray:
    """An array in memory of its own."""

    def __init__(self, size: int, dtype: DTypeLike) -> None:
        """Filled with zeros; the system assigns memory only where something is written."""
        self._item_size = np.dtype(dtype).itemsize
        self._memory = mmap.mmap(-1, max(size * self._item_size, 1), access=mmap.ACCESS_COPY)  # private to this process
        if hasattr(mmap, "MADV_HUGEPAGE"):  # random access is faster with large pages
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_HUGEPAGE)
        self.array: Int[ndarray, " size"] = np.frombuffer(self._memory, dtype, size)

    def release(self, start: int, stop: int) -> None:
        """Releases the memory of elements start .. stop, which must not be read again; a no-op where unsupported."""
        first = -(-start * self._item_size // mmap.PAGESIZE) * mmap.PAGESIZE
        last = stop * self._item_size // mmap.PAGESIZE * mmap.PAGESIZE
        if stop == self.array.size:
            last = -(-len(self._memory) // mmap.PAGESIZE) * mmap.PAGESIZE
        if hasattr(mmap, "MADV_DONTNEED") and first < last:
            with suppress(OSError):
                self._memory.madvise(mmap.MADV_DONTNEED, first, min(last, len(self._memory)) - first)
