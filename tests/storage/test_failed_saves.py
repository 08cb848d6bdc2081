"""Saves that fail, on a full disk or by Ctrl-C, leave the old model or the new one."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from saved_folders import ARRAYS, OTHER_ARRAYS, contents, save, with_texts

import chainrule
from chainrule.errors import OutputError
from chainrule.storage.model_folder import verify_model


class Faults:
    """Counts what is done to the disk, and makes one of these actions fail."""

    def __init__(self, patch: pytest.MonkeyPatch, *actions: str) -> None:
        self.log: list[str] = []
        self.position = -1
        self.after = False
        self.error: BaseException = KeyboardInterrupt()
        for name in actions:
            patch.setattr(os, name, self.watched(name, getattr(os, name)))
        really_open = open
        patch.setattr("builtins.open", lambda path, mode="r", **kw: self.opened(really_open, path, mode, **kw))

    def watched(self, name: str, action: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            self.log.append(f"{name} {Path(args[-1]).name}" if name == "replace" else name)
            fails = len(self.log) - 1 == self.position
            if fails and not self.after:
                raise self.error
            result = action(*args, **kwargs)
            if fails:
                raise self.error
            return result

        return act

    @contextmanager
    def opened(self, really_open: Callable[..., Any], path: Path, mode: str, **kwargs: Any) -> Iterator[Any]:
        if "w" not in mode:
            with really_open(path, mode, **kwargs) as file:
                yield file
            return
        with self.watched("open", really_open)(path, mode, **kwargs) as file:
            yield WatchedFile(file, self)


class WatchedFile:
    def __init__(self, file: Any, faults: Faults) -> None:
        self.fileno, self.flush = file.fileno, file.flush
        self.write = faults.watched("write", file.write)


FAILURES = [
    pytest.param(error, after, id=f"{name} {'after' if after else 'before'}")
    for name, error in [
        ("disk full", OSError(errno.ENOSPC, "No space left on device")),
        ("Ctrl-C", KeyboardInterrupt()),
    ]
    for after in (False, True)
]


@pytest.mark.parametrize(("error", "after"), FAILURES)
@pytest.mark.parametrize("arrays", [ARRAYS, OTHER_ARRAYS], ids=["same", "other"])
def test_a_failure_at_any_moment_leaves_the_old_model_or_the_new_one(
    folder: Path, tmp_path: Path, error: BaseException, after: bool, arrays: dict[str, np.ndarray]
) -> None:
    before = contents(folder)
    position = 0
    while True:
        target = tmp_path / "target"
        shutil.copytree(folder, target)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, "open", "replace", "fsync")
            faults.position, faults.after, faults.error = position, after, error
            try:
                save(target, arrays, overwrite=True, note="second")
            except (OutputError, KeyboardInterrupt) as raised:
                failed: BaseException | None = raised
            else:
                failed = None
        if failed is None:
            assert len(faults.log) == position > 15  # it went through, since there was no such moment
            break
        assert isinstance(failed, OutputError if isinstance(error, OSError) else KeyboardInterrupt)
        committed = "replace config.json" in (faults.log if after else faults.log[:-1])
        assert verify_model(target).record == {"note": "second" if committed else "first"}
        if not committed:
            assert contents(target) == before
        if isinstance(error, OSError):
            outcome = "the model was saved" if committed else "nothing was changed"
            assert f"cannot be written: No space left on device; {outcome}" in str(failed)
        assert not [name for name in contents(target) if name.endswith(".tmp")]
        shutil.rmtree(target)
        position += 1


@pytest.mark.parametrize(("error", "after"), FAILURES)
def test_a_failure_at_any_moment_of_a_first_save_leaves_nothing_or_a_model(
    tmp_path: Path, error: BaseException, after: bool
) -> None:
    position = 0
    while True:
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, "open", "replace", "fsync", "mkdir")
            faults.position, faults.after, faults.error = position, after, error
            with suppress(OutputError, KeyboardInterrupt):
                save(tmp_path / "a" / "lm")
        if len(faults.log) == position:
            break
        committed = "replace config.json" in (faults.log if after else faults.log[:-1])
        if committed:
            verify_model(tmp_path / "a" / "lm")
            assert not [name for name in contents(tmp_path / "a" / "lm") if name.endswith(".tmp")]
            shutil.rmtree(tmp_path / "a")
        assert list(tmp_path.iterdir()) == []
        position += 1
    assert position > 15
    verify_model(tmp_path / "a" / "lm")


def test_a_failure_in_a_folder_that_was_there_leaves_the_folder(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    with pytest.raises(TypeError):
        save(tmp_path / "lm", record={"no": {"json"}})
    assert contents(tmp_path / "lm") == {}


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """A write beyond that many bytes of any file fails, as on a full disk, in the system and not in a mock."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX limits")
def test_a_disk_that_is_full_at_any_byte_leaves_the_old_model_and_nothing_else(tmp_path: Path) -> None:
    folder = with_texts(tmp_path / "lm")
    before = contents(folder)
    size, saved, said = 0, False, set[str]()
    while not saved:
        try:
            with files_of_at_most(size):
                with_texts(folder, OTHER_ARRAYS, overwrite=True)
            saved = True
        except OutputError as error:
            said.add(str(error))
            if contents(folder) != before:
                raise
        size += 1
    assert said == {f"{folder}: cannot be written: File too large; nothing was changed"}
    verify_model(folder)
    assert size > 600  # its largest file


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX limits")
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz", "lm"])
def test_a_disk_that_is_full_while_a_model_is_saved_over_leaves_the_old_one(tmp_path: Path, name: str) -> None:
    old = chainrule.train(chainrule.Lines(["a b c"] * 5), chainrule.NGramConfig(order=1))
    new = chainrule.train(chainrule.Lines(["a b c d e"] * 5), chainrule.NGramConfig(order=3))
    path = tmp_path / name
    old.save(path)
    before = contents(path if path.is_dir() else tmp_path)
    for size in [0, 1, 10, 50, 100, 200]:
        with pytest.raises(OutputError, match="nothing was changed"), files_of_at_most(size):
            new.save(path, overwrite=True)
        assert contents(path if path.is_dir() else tmp_path) == before
    new.save(path, overwrite=True)
    assert chainrule.load(path).language_model.order == 3
