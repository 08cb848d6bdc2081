"""How much memory is available, how much this process uses, and whether a job fits; `Owned` values.

A caller hands a large value over for good as `Owned`, so that the function that uses it last can free it.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import threading
import weakref
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar, Union, overload

from chainrule.errors import EstimationError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jaxtyping import UInt8
    from numpy import ndarray

MEMORY_HINT = "if more is available than the system reports, say so: CHAINRULE_MEMORY=64G"
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def check_fits(size: int, work: str, advice: str = "") -> None:
    """Raise EstimationError if `work`, which needs `size` bytes, does not fit into memory. advice: what to do then."""
    available = available_memory()
    if available is not None and size > available:
        raise EstimationError(
            f"{work} needs about {bytes_shown(size)} of memory, and {bytes_shown(available)} are free; "
            f"{advice}{'; ' if advice else ''}{MEMORY_HINT}"
        )


def available_memory() -> int | None:
    """Return the available memory in bytes: CHAINRULE_MEMORY, or what the system has free; None if it does not say.

    Raises SettingError.
    """
    if override := os.environ.get("CHAINRULE_MEMORY"):
        return as_bytes("CHAINRULE_MEMORY", override)
    bounds = [bound for bound in (_free_memory(), *map(_limit, _CGROUP_LIMITS)) if bound is not None]
    return min(bounds, default=None)


@overload
def as_bytes(name: str, size: int | str) -> int: ...
@overload
def as_bytes(name: str, size: int | str | None) -> int | None: ...
def as_bytes(name: str, size: int | str | None) -> int | None:
    """Return a number of bytes, perhaps written as 500M, 4G or 1.5T, of powers of 1,024. Raises SettingError."""
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size > 0):
        return size
    if not isinstance(size, str):
        raise SettingError(f"{name} is {size!r}; expected a number of bytes above 0, or a text such as '8G'")
    parsed = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", size.strip().upper())
    if parsed is None:
        raise SettingError(f"{name} is {size!r}; expected a number of bytes, such as 8G")
    return int(float(parsed[1]) * _UNITS[parsed[2]])


def _free_memory() -> int | None:
    try:
        available = re.search(r"^MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
        if available:
            return int(available[1]) << 10
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _limit(path: str) -> int | None:
    """Return a container's limit; None for "max" and where there is no limit (old kernels write a huge number
    instead).
    """
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def bytes_shown(size: float) -> str:
    """Return a number of bytes for people, never as zero where there are some.

    good:  bytes_shown(2_345_000_000) == "2.3 GB", bytes_shown(40_000_000) == "40.0 MB", bytes_shown(12) == "12 bytes"
    """
    for unit, own in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= own:
            return f"{size / own:,.1f} {unit}"
    return f"{size:,.0f} bytes"


def peak_memory() -> int | None:
    """Return the peak resident memory of this process, in bytes; None if the system does not say."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def release_freed_memory() -> None:
    """Give memory that libraries in C have freed back to the system; without glibc, do nothing."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


_CHUNK, _LINE = 1 << 26, 64  # bytes that arrays share; at multiples of which arrays begin


class _SideBySide:
    """Arrays of zeros that share one allocation, for which systems use large pages, as they do not for small arrays."""

    def __init__(self) -> None:
        self._chunks: list[tuple[weakref.ref[ndarray], int]] = []  # freed with their last array; bytes in use
        self._lock = threading.Lock()

    def __call__(self, size: int) -> UInt8[ndarray, " size"]:
        import numpy as np

        with self._lock:
            for i, (known, used) in enumerate(self._chunks):  # noqa: B007
                if (chunk := known()) is not None and used + size <= len(chunk):
                    break
            else:
                chunk, used = np.zeros(max(_CHUNK, size), np.uint8), 0  # NumPy asks for large pages
                self._chunks = [pair for pair in self._chunks if pair[0]() is not None]
                i = len(self._chunks)
                self._chunks.append((weakref.ref(chunk), 0))
            self._chunks[i] = (self._chunks[i][0], used + -(-size // _LINE) * _LINE)
            return chunk[used : used + size]


zeros_side_by_side = _SideBySide()  # zeros_side_by_side(size): an array of uint8


T = TypeVar("T")


@contextmanager
def collection_paused() -> Iterator[None]:
    """Pause Python's garbage collector: where a million objects are made that stay, it takes a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Owned(Generic[T]):
    """A value handed over for good: the caller keeps no reference, so that the callee can free it with `del`.

    good:  count_ngrams(Owned(encode_stream(tokenizer, source)), size, 5)
    bad:   count_ngrams(Owned(stream), size, 5); stream.size       # right, but nothing is freed
    """

    def __init__(self, value: T) -> None:
        self._values = [value]

    def take(self) -> T:
        if not self._values:
            raise ValueError("an owned value can be taken once; this one was taken before")
        return self._values.pop()


MaybeOwned = Union[T, Owned[T]]  # noqa: UP007  # an alias with a parameter


def unwrap(value: MaybeOwned[T]) -> T:
    """Return the value itself, whether it is owned or borrowed from a caller that still uses it."""
    return value.take() if isinstance(value, Owned) else value
