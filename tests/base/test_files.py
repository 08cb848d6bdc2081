"""Files that are replaced in one step: what may be, and what may not."""

from __future__ import annotations

import os
import socket
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from chainrule.base.files import check_new_file, read_file, replace_file
from chainrule.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in its file systems")
def test_a_pipe_or_a_device_is_refused_and_stays_what_it_was(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(OutputError, match=f"{name}: this is a device or a pipe"), replace_file(tmp_path / name):
            pass
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_new_file_may_not_replace_an_input_or_unasked_what_is_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    (tmp_path / "link").symlink_to(old)
    check_new_file(new, overwrite=False, inputs=[old, tmp_path / "missing"])
    check_new_file(old, overwrite=True)
    for path, inputs, message in (
        (tmp_path, [], "this is a folder"),
        (old, [], "exists already; use overwrite=True"),
        (tmp_path / "no" / "new", [], f"there is no folder {tmp_path / 'no'}"),
    ):
        with pytest.raises(OutputError, match=message):
            check_new_file(path, overwrite=False, inputs=inputs)
    with pytest.raises(OutputError, match="is one of the files to read"):
        check_new_file(tmp_path / "link", overwrite=True, inputs=[old])


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in its file systems")
def test_a_small_file_is_regular_and_of_at_most_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe without a writer was waited for, and a device read until memory was full."""
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_file(tmp_path / "link", 5) == b"12345"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to pipe").symlink_to(tmp_path / "pipe")
    (tmp_path / "to device").symlink_to("/dev/zero")
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for name, message in (
            ("link", "it has 5 bytes or more; expected at most 4"),
            ("pipe", "it is a pipe; expected a regular file"),
            ("to pipe", "it is a pipe"),
            ("to device", "it is a device"),
            ("socket", "it is a socket"),
            (".", "Is a directory"),
            ("missing", "No such file"),
        ):
            with pytest.raises(OSError, match=message):
                read_file(tmp_path / name, 4)
