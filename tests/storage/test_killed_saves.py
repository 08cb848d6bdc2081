"""Saves that are killed, or run beside others, leave one whole model."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_folders import ARRAYS, save

from chainrule.errors import ModelFormatError
from chainrule.storage import model_folder
from chainrule.storage.model_folder import open_model, verify_model

KILLED_AT_EVERY_MOMENT = """
import os, signal, sys
from pathlib import Path
import numpy as np
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import open_model, save_model, verify_model

moment = -1  # which of the next actions kills this process, before it is done

def watched(action):
    def act(*args, **kwargs):
        global moment
        moment -= 1
        if moment == -1:
            os.kill(os.getpid(), signal.SIGKILL)
        return action(*args, **kwargs)
    return act

class Watched:
    def __init__(self, file):
        self.file, self.fileno, self.flush, self.write = file, file.fileno, watched(file.flush), watched(file.write)
    def __enter__(self):
        return self
    def __exit__(self, *args):
        self.file.close()

def save(i):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(1000, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=str(i), overwrite=True,
        texts={"tokenizer.json": str(i).encode()},
    )

save(0)
last = killed = 0
while True:
    child = os.fork()
    if child == 0:
        really_open = open
        import builtins
        def opened(path, mode="r", *args, **kwargs):
            file = really_open(path, mode, *args, **kwargs)
            return Watched(file) if "w" in mode else file
        builtins.open = watched(opened)
        for name in ("replace", "fsync", "unlink", "open", "mkdir"):
            setattr(os, name, watched(getattr(os, name)))
        moment = killed + 1
        save(last + 1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    found = verify_model(Path(sys.argv[1])).record["i"]
    assert found in (last, last + 1), (found, last)
    assert open_model(Path(sys.argv[1]))[2] == {"tokenizer.json": str(found).encode()}
    last = found
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    killed += 1
print(killed, len(os.listdir(sys.argv[1])))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_a_save_that_is_killed_before_any_of_its_actions_leaves_a_whole_model(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EVERY_MOMENT, str(tmp_path / "lm")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    killed, files = map(int, result.stdout.split())
    assert killed > 25
    assert files == 4  # what was left behind has been swept


SAVES_FOREVER = """
import sys, numpy as np
from pathlib import Path
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model
for i in range(10**9):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(10**5, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=str(i), overwrite=True,
    )
    print(i, flush=True)
"""


def test_a_save_that_is_killed_at_any_moment_leaves_a_whole_model_that_can_be_saved_over(tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    moments = np.random.default_rng(0).uniform(0, 0.03, 8)
    for moment in moments:
        with subprocess.Popen(
            [sys.executable, "-c", SAVES_FOREVER, str(folder)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            saved = int(child.stdout.readline())
            time.sleep(moment)
            child.kill()
            saved += len(child.stdout.readlines())
        entry = verify_model(folder)
        assert entry.record["i"] in (saved, saved + 1)
        assert np.all(open_model(folder)[1]["a"] == entry.record["i"])
    save(folder, ARRAYS, overwrite=True)
    assert len(list(folder.iterdir())) == 3


def test_a_save_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    folder = tmp_path / "lm"
    folder.mkdir()
    for name in ("arrays.safetensors.0123abcd.tmp", "config.json.0123abcd.tmp", "README.md.0123abcd.tmp"):
        (folder / name).write_text("half")
    (folder / "arrays-0123456789abcdef.safetensors").write_text("whole, but never committed")
    save(folder, ARRAYS)
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == ["README.md", "arrays", "config.json"]


SAVES_A_WHILE = """
import sys, numpy as np
from pathlib import Path
from chainrule.storage.config_json import TokenizerEntry
from chainrule.storage.model_folder import save_model
for i in range(40):
    save_model(
        Path(sys.argv[1]), family="uniform", settings={}, arrays={"a": np.full(1000, i, np.int32)}, record={"i": i},
        tokenizer=TokenizerEntry(kind="word", markers="error", unicode="15"), card=sys.argv[2], overwrite=True,
    )
"""


@pytest.mark.thorough
def test_two_processes_that_save_into_one_folder_and_one_that_reads_never_meet_half_a_model(folder: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", SAVES_A_WHILE, str(folder), name]) for name in ("one", "two")]
    while any(writer.poll() is None for writer in writers):
        entry, arrays, *_ = open_model(folder)
        assert "a" not in arrays or np.all(arrays["a"] == entry.record["i"])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert len(list(folder.iterdir())) == 3


def test_a_model_that_an_equal_one_replaced_meanwhile_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another model was there in between, so that its data were missing for a moment."""
    config, [data] = folder / "config.json", list(folder.glob("arrays-*"))
    aside = data.rename(folder.parent / "aside")
    find = model_folder._data_file

    def fails_once(*arguments: Any) -> Path:
        try:
            return find(*arguments)
        except ModelFormatError:
            assert aside.exists()
            shutil.copy(config, folder.parent / "equal")
            aside.rename(data)
            (folder.parent / "equal").rename(config)
            raise

    monkeypatch.setattr(model_folder, "_data_file", fails_once)
    assert open_model(folder).entry.family == "ngram"
