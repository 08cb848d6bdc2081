"""Memory that is released in parts."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from chainrule.ngram.counting.count import ReleasableArray


def test_what_is_left_stays() -> None:
    given = ReleasableArray(100_000, np.int32)
    assert not given.array.any()
    given.array[:] = np.arange(100_000)
    given.release(20_001, 70_003)
    np.testing.assert_array_equal(given.array[:20_001], np.arange(20_001))
    np.testing.assert_array_equal(given.array[70_003:], np.arange(70_003, 100_000))
    given.release(70_003, 100_000)
    np.testing.assert_array_equal(given.array[:20_001], np.arange(20_001))


@pytest.mark.parametrize("size", [0, 1])
def test_arrays_smaller_than_a_page(size: int) -> None:
    given = ReleasableArray(size, np.int64)
    given.release(0, size)
    assert given.array.size == size


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much memory a process has at the moment")
def test_memory_is_released() -> None:
    def held() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    given = ReleasableArray(1 << 24, np.int32)
    before = held()
    given.array[:] = 1
    assert held() > before + (48 << 20)
    given.release(0, 1 << 24)
    assert held() < before + (16 << 20)
