"""Memory that is given back: how many of a file's pages a process holds, as the system counts them."""

from __future__ import annotations

import mmap
import re
from pathlib import Path

import numpy as np
import pytest

from chainrule.features.open.quantised import release_mapped

STATUS = Path("/proc/self/status")
SIZE = 1 << 24


def bytes_of_files() -> int:
    found = re.search(r"RssFile:\s*(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) << 10


@pytest.mark.skipif(not STATUS.exists(), reason="the system tells nothing in /proc")
def test_pages_of_a_file_are_given_back_and_read_again(tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).integers(0, 256, SIZE, dtype=np.uint8)
    (tmp_path / "file").write_bytes(numbers.tobytes())
    with (tmp_path / "file").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    before = bytes_of_files()
    view = np.frombuffer(mapped, np.uint8, SIZE - 300, 300).reshape(-1, 4)
    np.testing.assert_array_equal(view.ravel(), numbers[300:])
    assert bytes_of_files() - before > 0.9 * SIZE
    release_mapped(view)
    assert bytes_of_files() - before < 0.1 * SIZE
    np.testing.assert_array_equal(view.ravel(), numbers[300:])
    for other in (numbers, view[:, 0], view[:0]):  # memory of its own, parts that are apart, nothing
        release_mapped(other)
    np.testing.assert_array_equal(view.ravel(), numbers[300:])
