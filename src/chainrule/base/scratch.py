"""Arrays on disk that may be larger than memory, in files without names that vanish with them.

The pages of such files that a process has touched count as its memory until it gives them back: `release_pages`.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from chainrule.base.memory import available_memory, bytes_shown
from chainrule.errors import OutputError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from jaxtyping import Int32, Int64
    from numpy import ndarray
    from numpy.typing import DTypeLike

_SHARE = 4  # what takes less than this part of the memory lies there
_PART = 1 << 22  # numbers of an array that are read between two releases
_TOKENS = 1 << 20  # that are counted at a time

_mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def scratch_folder() -> str:
    """Return the folder for temporary files: TMPDIR, or the system's. Raises SettingError."""
    named = os.environ.get("TMPDIR")
    if named and not (os.path.isdir(named) and os.access(named, os.W_OK | os.X_OK)):  # tempfile takes another instead
        raise SettingError(f"TMPDIR is {named}, where no file can be written; name another folder")
    return tempfile.gettempdir()


def check_disk_room(size: int, work: str) -> None:
    """Raise OutputError if `work`, which writes `size` bytes of temporary files, finds too little room for them.

    Raises SettingError as `scratch_folder`.
    """
    free = shutil.disk_usage(scratch_folder()).free
    if size > free:
        raise OutputError(
            f"{scratch_folder()}: {work} needs about {bytes_shown(size)} for temporary files, and {bytes_shown(free)} "
            "are free; name another folder in TMPDIR"
        )


def room_for(shape: tuple[int, ...], dtype: DTypeLike) -> ndarray[Any, Any]:
    """Return an array of anything, in memory or, where it would take too much of that, in a file. Raises
    OutputError.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    at_hand = available_memory()
    if at_hand is None or size * _SHARE <= at_hand or not size:
        return np.empty(shape, dtype)
    return array_on_disk(int(np.prod(shape)), dtype).reshape(shape)


def array_on_disk(size: int, dtype: DTypeLike) -> ndarray[Any, Any]:
    """Return an array of zeros in a file, whose room on the disk is reserved. Raises OutputError."""
    array = GrowingArray(dtype)
    array.reserve(size)
    return array.finish()


class GrowingArray:
    """An array in a file that is written from front to end, and mapped once it is complete. Raises OutputError."""

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype, self.size = np.dtype(dtype), 0
        try:
            self._file: BinaryIO = tempfile.TemporaryFile(buffering=0, dir=scratch_folder())  # noqa: SIM115
        except OSError as error:
            raise _no_room(0, error) from error
        weakref.finalize(self, self._file.close)

    def append(self, numbers: ndarray[Any, Any]) -> None:
        """Add numbers of any type that fits."""
        data = np.ascontiguousarray(numbers, self.dtype).reshape(-1).view(np.uint8).data
        self.size += numbers.size
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _no_room(self.size * self.dtype.itemsize, error) from error

    def reserve(self, size: int) -> None:
        """Add zeros. Without a reservation, writing to a full disk would end the process."""
        first, length = self.size * self.dtype.itemsize, size * self.dtype.itemsize
        self.size += size
        if not length:
            return
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file.fileno(), first, length)
            else:
                self._file.truncate(first + length)
            self._file.seek(first + length)
        except OSError as error:
            raise _no_room(first + length, error) from error

    def finish(self) -> ndarray[Any, Any]:
        """Return the array; nothing can be appended any more."""
        with self._file as file:
            return map_file(file, self.dtype)


def map_file(file: BinaryIO, dtype: DTypeLike) -> ndarray[Any, Any]:
    """Return the numbers in a file, as an array that writes to it."""
    if not os.fstat(file.fileno()).st_size:
        return np.empty(0, dtype)
    mapped = mmap.mmap(file.fileno(), 0)
    _mappings.add(mapped)
    return np.frombuffer(mapped, dtype)


def release_pages() -> None:
    """Give the pages of all arrays on disk that are in memory back to the system; their contents stay in the files."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for mapped in list(_mappings):
            with suppress(OSError, ValueError):
                mapped.madvise(mmap.MADV_DONTNEED)


def parts_released(array: ndarray[Any, Any], size: int = _PART) -> Iterator[ndarray[Any, Any]]:
    """Yield the parts of an array one after the other; the pages of each are released after it."""
    for start in range(0, array.size, size):
        yield array[start : start + size]
        if array.size > size:
            release_pages()


def token_counts(stream: Int32[ndarray, " tokens"], vocabulary_size: int) -> Int64[ndarray, " vocab"]:
    """Return how often each token occurs in a stream, which may be larger than memory."""
    counts = np.zeros(vocabulary_size, np.int64)
    for part in parts_released(stream, _TOKENS):  # np.bincount copies its input
        counts += np.bincount(part, minlength=vocabulary_size)
    return counts


def _no_room(size: int, error: OSError) -> OutputError:
    return OutputError(
        f"{scratch_folder()}: there is no room for a temporary file of {bytes_shown(size)}: {error.strerror}; "
        "name another folder in TMPDIR"
    )
