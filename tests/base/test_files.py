"""Files that are replaced in one step: what may be, and what may not."""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING

import pytest

from chainrule.base.files import check_new_file, replace_file
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
