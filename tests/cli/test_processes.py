"""What only a process of its own can show: signals, pipes, encodings, and what is imported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest
from command_line import strict_json
from samples import sampled

import chainrule as library
from chainrule.cli.verbs import FAMILIES, VERBS

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = ("numba", "numpy", "torch")


@pytest.mark.parametrize("statement", ["import chainrule", "import chainrule.cli.main"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    code = f"{statement}; import sys; print(*sorted({{*sys.modules}} & {{*{HEAVY}}}))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["score", "--help"], ["--version"], ["train", "ngram"]])
def test_help_and_wrong_usage_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from chainrule.cli.main import run; run(sys.argv[1:]); "
        f"print('loaded', *sorted({{*sys.modules}} & {{*{HEAVY}}}))"
    )
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "loaded"


@pytest.mark.parametrize("verbs", [[], ["score"], ["train", "ngram"], ["train", "bidirectional"]])
def test_help_imports_one_verb_and_no_other(verbs: list[str]) -> None:
    code = (
        "import sys; from chainrule.cli.main import run; run([*sys.argv[1:], '--help']); "
        "print('loaded', *sorted(name for name in sys.modules if name.startswith('chainrule.')))"
    )
    result = subprocess.run([sys.executable, "-c", code, *verbs], capture_output=True, text=True, check=True)
    loaded = {name.removeprefix("chainrule.") for name in result.stdout.splitlines()[-1].split()[1:]}
    functions = {
        verb.function.target.removeprefix("chainrule.").split(":")[0] for verb in (*VERBS.values(), *FAMILIES.values())
    }
    expected = {"score": {"cli.measure.score"}, "ngram": {"cli.train.ngram"}, "bidirectional": {"cli.train.networks"}}
    assert loaded & functions == (expected[verbs[-1]] if verbs else set())


def test_the_command_and_the_module_are_the_same() -> None:
    command = Path(sys.executable).with_name("chainrule")
    for program in ([str(command)], [sys.executable, "-m", "chainrule"]):
        result = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)
        assert result.stdout == f"{library.__version__}\n"


def test_a_process_leaves_with_one_line_and_the_status(process) -> None:
    started = process("evaluate", "missing-model", "missing.txt")
    out, err = started.communicate()
    assert (started.returncode, out) == (1, b"")
    assert err == b"chainrule: missing.txt: there is no such file\n"


@pytest.mark.thorough
def test_debug_shows_the_traceback_in_full(process) -> None:
    started = process("verify", "missing-model", "--debug")
    _, err = started.communicate()
    assert started.returncode == 1
    assert err.startswith(b"Traceback (most recent call last):\n")
    assert b"ModelFormatError: missing-model: " in err


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="needs pipes that break")
def test_a_reader_who_has_had_enough_is_no_error(process, model: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_bytes(corpus.read_bytes() * 20)
    started = process("score", model, tmp_path / "long.txt")
    with started:
        assert started.stdout.readline().endswith(b"\tka vi nin bu gi\n")
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 0


@pytest.mark.skipif(os.name == "nt", reason="needs pipes that break")
@pytest.mark.parametrize("verb", sampled(["evaluate", "score"], ["score"]))
def test_a_reader_who_has_left_before_the_first_line_is_no_error(
    verb: str, process, model: Path, heldout: Path
) -> None:
    started = process(verb, model, heldout)
    with started:
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("verb", sampled(["evaluate", "score"], ["score"]))
def test_output_to_a_full_disk_is_a_one_line_error(verb: str, process, model: Path, corpus: Path) -> None:
    with open("/dev/full", "wb") as full:
        started = process(verb, model, corpus, stdout=full)
        _, err = started.communicate()
    assert started.returncode == 1
    assert err == b"chainrule: reading or writing failed: No space left on device\n"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("verb", sampled(["train", "compare"], ["train"]))
def test_ctrl_c_ends_the_work_with_one_line_and_nothing_on_disk(
    verb: str, process: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    text = tmp_path / "text"
    os.mkfifo(text)  # so that the work cannot be over before the signal
    verbs = {"train": ["train", "ngram"], "compare": ["compare"]}[verb]
    started = process(*verbs, text, "-o", tmp_path / "new", stdin=subprocess.DEVNULL)
    with _opened_for_writing(text, started) as pipe:
        for i in range(400):
            pipe.write(b"".join(b"%d %d %d\n" % (i, j, i * j % 97) for j in range(2000)))
        pipe.flush()
        out, err = _interrupted(started)
    assert (started.returncode, out) == (130, b"")
    assert err == b"chainrule: interrupted; no half-written file is left\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text"]


def _interrupted(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Ctrl-C, and again where the process went to sleep in `read` at the very moment that the signal came."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=2)
    raise AssertionError("the process does not hear Ctrl-C")


def _opened_for_writing(pipe: Path, reader: subprocess.Popen[bytes]) -> BinaryIO:
    """A named pipe, as soon as the process reads it."""
    while reader.poll() is None:
        with suppress(OSError):
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            os.set_blocking(descriptor, True)
            return open(descriptor, "wb")
        time.sleep(0.01)
    raise AssertionError(f"the process ended before it read anything: {reader.communicate()}")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_while_a_kernel_counts_is_heard(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"".join(b"%d %d %d\n" % (i % 977, i, i * i % 1009) for i in range(300_000)))
    code = """
import os, signal, sys, threading
import chainrule.ngram.training as training
from chainrule.cli.main import main

def interrupted_soon(*arguments, count=training.count_ngrams):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    return count(*arguments)

training.count_ngrams = interrupted_soon
main()
"""
    arguments = ["train", "ngram", tmp_path / "text", "-o", tmp_path / "lm", "--order", "24"]
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, timeout=120, check=False)
    assert (result.returncode, result.stdout) == (130, b"")
    assert result.stderr == b"chainrule: interrupted; no half-written file is left\n"
    assert not (tmp_path / "lm").exists()


@pytest.mark.parametrize("encoding", sampled(["utf-8", "ascii", "latin-1"], ["ascii"]))
def test_what_the_output_cannot_encode_is_escaped(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("日本語 𝒳 é\n", encoding="utf-8")
    model = library.train(tmp_path / "text.txt", library.NGramConfig(order=1), tokenizer="whitespace")
    model.save(tmp_path / "lm")
    code = """
import sys
from contextlib import suppress
from chainrule.cli.main import main

arguments = sys.argv
for option in ([], ["--json"]):
    sys.argv = [*arguments, *option]
    with suppress(SystemExit):
        main()
"""
    command = [sys.executable, "-c", code, "score", str(tmp_path / "lm"), str(tmp_path / "text.txt")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    printed = subprocess.run(command, capture_output=True, check=True, env=environment).stdout
    plain, as_json = printed.splitlines(keepends=True)
    expected = "日本語 𝒳 é\n".encode(encoding, "backslashreplace")
    assert plain.endswith(b"\t" + expected)
    assert strict_json(as_json.decode(encoding))["text"] == "日本語 𝒳 é"


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", sampled([">&-", "<&-", "2>&-", ">&- <&- 2>&-"], [">&- <&- 2>&-"]))
def test_streams_that_are_closed_are_no_hindrance(closed: str, model: Path, heldout: Path) -> None:
    code = """
import sys
from chainrule.cli.main import main

model, text = sys.argv[1:]
for arguments in (["evaluate", model, text], ["score", model]):
    sys.argv[1:] = arguments
    try:
        main()
    except SystemExit as leaving:
        if leaving.code:
            raise
"""
    command = ["sh", "-c", f'"$@" {closed}', "sh", sys.executable, "-c", code, str(model), str(heldout)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.skipif(sys.platform != "linux", reason="needs file names that are no text")
def test_a_file_name_that_is_no_text_is_no_hindrance(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    with open(folder + b"/na\xffme", "wb") as file:
        file.write(b"a b\n")
    command = [sys.executable, "-m", "chainrule", "train", "ngram", folder + b"/na\xffme", "-o", folder + b"/l\xffm"]
    result = subprocess.run(command, capture_output=True, check=False, env={**os.environ, "PYTHONUTF8": "1"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(folder + b"/l\\udcffm: ngram model of 2 tokens")


def test_a_terminal_of_no_width_is_no_hindrance() -> None:
    command = [sys.executable, "-m", "chainrule", "score", "--help"]
    environment = {**os.environ, "COLUMNS": "0"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert "Usage: chainrule score" in result.stdout
