"""Fixtures for tests of verbs: the command line inside the test's own process, and one model for all."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Result
from tiny_pairs import QUICK, SOURCES, TARGETS

from chainrule.base.threads import set_threads
from chainrule.cli.main import run
from chainrule.ngram.config import NGramConfig
from chainrule.verbs.training.train import train

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture
def chainrule(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs one command and gives its status and what it printed."""

    def call(*arguments: object) -> Result:
        capsys.readouterr()
        status = run([str(argument) for argument in arguments])
        return Result(status, *capsys.readouterr())

    return call


@pytest.fixture
def refused(chainrule: Callable[..., Result], tmp_path: Path) -> Callable[..., str]:
    """Runs a command that must fail with the given status and change no file; gives its one line."""

    def call(status: int, arguments: list[object]) -> str:
        before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
        result = chainrule(*arguments)
        assert result.status == status
        message = result.error
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
        return message

    return call


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Says what standard input holds."""

    def hold(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(data))))  # type: ignore[arg-type]

    return hold


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trigram model of train.txt, cut at white space; made without the command line, and not to be changed."""
    path = tmp_path_factory.mktemp("model") / "lm"
    train(FIXTURES / "train.txt", NGramConfig(order=3), tokenizer="whitespace").save(path)
    return path


@pytest.fixture
def corpus() -> Path:
    return FIXTURES / "train.txt"


@pytest.fixture
def heldout() -> Path:
    """102 lines; some words are unknown, and the last line is empty."""
    return FIXTURES / "heldout.txt"


@pytest.fixture
def impossible(tmp_path: Path) -> Path:
    """An ARPA file that gives the unknown word no probability at all, and </s> and a one half each."""
    path = tmp_path / "impossible.arpa"
    unigrams = ["-inf\t<unk>", "0\t<s>", "-0.30103\t</s>", "-0.30103\ta"]
    path.write_text("\n".join(["\\data\\", "ngram 1=4", "", "\\1-grams:", *unigrams, "", "\\end\\", ""]))
    return path


@contextmanager
def _single_threaded() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    set_threads(1)
    torch.set_num_threads(1)
    yield
    set_threads(None)
    torch.set_num_threads(before)


@pytest.fixture
def one_thread() -> Iterator[None]:
    with _single_threaded():
        yield


def _write_pairs(folder: Path) -> list[Path]:
    files = [folder / "train.de", folder / "train.en"]
    for file, lines in zip(files, (SOURCES, TARGETS), strict=True):
        file.write_text("".join(line + "\n" for line in lines))
    return files


@pytest.fixture
def pairs(tmp_path: Path) -> list[Path]:
    """The files of sources and targets."""
    return _write_pairs(tmp_path)


@pytest.fixture(scope="session")
def trained_pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    source, target = _write_pairs(folder)
    arguments = ["train", "seq2seq", "--source", source, "--target", target, "-o", folder / "mt", *QUICK]
    with _single_threaded():
        assert run([str(argument) for argument in arguments]) == 0
    return folder / "mt"


@pytest.fixture
def mt(trained_pairs: Path, one_thread: None, tmp_path: Path) -> Path:
    """A model of the pairs that a test may change."""
    return shutil.copytree(trained_pairs, tmp_path / "mt")


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process of its own, which is killed where it hangs: then what waits for its answer gets an empty one."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    watches = []

    def start(*arguments: object, **settings: Any) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings}
        command = [sys.executable, "-m", "chainrule", *map(str, arguments)]
        started = subprocess.Popen(command, env={**environment, "PYTHONWARNINGS": "error"}, **pipes)
        watches.append(threading.Timer(300, started.kill))
        watches[-1].start()
        return started

    yield start
    for watch in watches:
        watch.cancel()
