"""One opened model among threads, processes, and people who write to its file."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import chainrule
from chainrule.errors import ModelFormatError

if TYPE_CHECKING:
    from pathlib import Path

TEXTS = [" ".join(str(i * j % 97) for j in range(30)) for i in range(300)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chainrule.train(chainrule.Lines(TEXTS), chainrule.NGramConfig(order=4), tokenizer="whitespace").save(
        tmp_path / "lm"
    )
    return tmp_path / "lm"


def data_file(folder: Path) -> Path:
    (path,) = folder.glob("arrays-*")
    return path


def test_threads_that_score_at_once_get_the_bits_that_one_gets(folder: Path) -> None:
    model = chainrule.load(folder)
    expected = chainrule.load(folder, copy=True).score(TEXTS).tobytes()
    together = threading.Barrier(4)
    found: list[bytes] = []

    def score() -> None:
        together.wait()
        found.extend([model.score(TEXTS).tobytes() for _ in range(5)])

    threads = [threading.Thread(target=score) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


SCORES_AND_TELLS_ITS_PAGES = """
import sys
import chainrule
model = chainrule.load(sys.argv[1])
model.score([" ".join(str(i * j % 97) for j in range(30)) for i in range(300)])
model.next("1 2 3")
model.generate("1", seed=1)
print("ready", flush=True)
sys.stdin.read()  # until all are ready
pages = {}
mine = False
for line in open("/proc/self/smaps"):
    name, *values = line.split()
    if not name.endswith(":"):
        mine = "arrays-" in line
    elif mine and values[-1] == "kB":
        pages[name] = pages.get(name, 0) + int(values[0])
print(pages["Rss:"], pages["Private_Dirty:"], pages["Shared_Clean:"])
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_processes_share_the_pages_of_a_model(folder: Path) -> None:
    [arrays] = folder.glob("arrays-*")
    with arrays.open("rb+") as file:
        os.fdatasync(file)  # pages that are not on the disk yet count as dirty
    command = [sys.executable, "-c", SCORES_AND_TELLS_ITS_PAGES, str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as one, subprocess.Popen(command, **pipes) as other:
        assert [process.stdout.readline() for process in (one, other)] == ["ready\n"] * 2
        told, _ = one.communicate(timeout=60)  # while the other waits, with the model open
        other.communicate(timeout=60)
    resident, dirty, shared = map(int, told.split())
    assert dirty == 0
    assert shared == resident > 100


def test_a_file_changed_in_place_is_an_error_at_the_next_use(folder: Path) -> None:
    model, held = chainrule.load(folder), chainrule.load(folder, copy=True)
    expected = model.score(TEXTS)
    path = data_file(folder)
    with open(path, "r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"\xff" * 1000)
    os.utime(path, ns=(0, 1))  # so that clocks that tick slowly show it, too
    for use in (lambda: model.score(TEXTS), lambda: model.next("1"), lambda: model.save(folder.parent / "other")):
        with pytest.raises(ModelFormatError, match=f"{path.name}: has been written to since it was opened"):
            use()
    assert not (folder.parent / "other").exists()
    np.testing.assert_array_equal(held.score(TEXTS), expected)


def test_a_file_truncated_in_place_is_an_error_at_the_next_use(folder: Path) -> None:
    model, held = chainrule.load(folder), chainrule.load(folder, copy=True)
    expected = model.score(TEXTS)
    os.truncate(data_file(folder), 100)
    with pytest.raises(ModelFormatError, match="has been written to since it was opened"):
        model.score(TEXTS)
    np.testing.assert_array_equal(held.score(TEXTS), expected)


def test_a_model_that_is_saved_over_or_deleted_goes_on(folder: Path) -> None:
    model = chainrule.load(folder)
    expected = model.score(TEXTS)
    chainrule.train(chainrule.Lines(["a b"]), chainrule.UniformConfig()).save(folder, overwrite=True)
    np.testing.assert_array_equal(model.score(TEXTS), expected)
    model.save(folder, overwrite=True)
    np.testing.assert_array_equal(chainrule.load(folder).score(TEXTS), expected)
    data_file(folder).unlink()
    np.testing.assert_array_equal(model.score(TEXTS), expected)
