"""Every verb's help has an example, and all of them run, one after the other, in one folder."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from verb_examples import ending_at_once, examples, write_files

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from command_line import Result


def test_the_example_in_the_help_of_every_verb_runs(
    chainrule: Callable[..., Result],
    stdin: Callable[[bytes], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    with ending_at_once() as asked_of_lm_eval:
        for _, arguments in examples():
            stdin(b"I visited S\n")
            result = chainrule(*arguments)
            assert result.status == 0, f"{shlex.join(arguments)}\n{result.err}"
    assert asked_of_lm_eval[-2:] == ["--model", "chainrule"]
