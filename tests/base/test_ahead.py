"""Kernels that further processes compile while a first run waits for one."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from compile_kernels import kernels, recorded

from chainrule.base import ahead
from chainrule.base.ahead import compile_ahead, listed, runs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[str]]]:
    """The commands of processes that would be started, in an empty cache."""
    commands: list[list[str]] = []
    monkeypatch.setattr(ahead, "cache_folder", lambda: tmp_path)

    def start(command: list[str], **_: Any) -> SimpleNamespace:
        commands.append(command)
        return SimpleNamespace()

    monkeypatch.setattr(subprocess, "Popen", start)
    compile_ahead.cache_clear()
    yield commands
    compile_ahead.cache_clear()


def test_every_run_lists_kernels_that_tests_compile() -> None:
    """`python tests/base/record_ahead.py MODEL.gguf` writes the lists anew."""
    assert runs() == ["counting", "packed"]
    for run in runs():
        lines = list(listed(run))
        assert len(lines) > 5
        for module, kernel, arguments in lines:
            assert f"{module}.{kernel}" in kernels()
            assert arguments in recorded()[f"{module}.{kernel}"]


def test_processes_start_once_on_a_machine(started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "thread_count", lambda: 3)
    compile_ahead("counting")
    assert [command[-3:] for command in started] == [["counting", "0", "2"], ["counting", "1", "2"]]
    compile_ahead("counting")
    compile_ahead.cache_clear()  # as another process would see it
    compile_ahead("counting")
    assert len(started) == 2
    compile_ahead("packed")
    assert len(started) == 4


@pytest.mark.parametrize(("threads", "expected"), [(1, 0), (2, 1), (64, 3)])
def test_as_many_processes_start_as_have_work(
    threads: int, expected: int, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "thread_count", lambda: threads)
    compile_ahead("counting")
    assert len(started) == expected


def test_where_nothing_can_be_kept_or_started_a_run_goes_on(
    started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(ahead, "thread_count", lambda: 2)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    compile_ahead("counting")
    monkeypatch.setattr(ahead, "cache_folder", lambda: None)
    compile_ahead("packed")
    assert started == []


def test_the_processes_begin_at_the_end_and_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(ahead, "compile_for", lambda kernel, arguments: compiled.append(kernel.__name__))
    names = [kernel for _, kernel, _ in listed("packed")]
    ahead._compile("packed", 0, 2)
    ahead._compile("packed", 1, 2)
    assert compiled == names[::-2] + names[-2::-2]


def test_a_process_ends_without_a_word() -> None:
    command = [sys.executable, "-P", "-m", "chainrule.base.ahead", "packed", "0", "99"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
