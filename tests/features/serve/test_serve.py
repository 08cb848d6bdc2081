"""chainrule serve, as a process: it says where it listens, answers, and ends well at Ctrl-C."""

from __future__ import annotations

import json
import signal
import urllib.request
from typing import TYPE_CHECKING

import pytest
from samples import sampled

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from command_line import Result


@pytest.mark.parametrize("sent", sampled([signal.SIGINT, signal.SIGTERM], [signal.SIGINT]))
def test_it_says_where_answers_and_stops(
    process: Callable[..., subprocess.Popen[bytes]], model: Path, sent: signal.Signals
) -> None:
    server = process("serve", f"one={model}", f"two={model}", "--port", 0, "--log-requests")
    assert server.stdout is not None
    line = server.stdout.readline().decode()
    assert line.startswith("serving one, two on http://127.0.0.1:")
    assert line.endswith("/v1; Ctrl-C stops\n")
    url = line.split()[4].removesuffix("/v1;")
    with urllib.request.urlopen(f"{url}/v1/models", timeout=60) as answer:
        assert [entry["id"] for entry in json.load(answer)["data"]] == ["one", "two"]
    server.send_signal(sent)
    _, log = server.communicate(timeout=60)
    assert server.returncode == (0 if sent == signal.SIGINT else -sent)
    assert b"GET /v1/models 200" in log
    assert b"Traceback" not in log


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "A model to serve is missing. Try: chainrule serve --help"),
        (["{model}", "{model}"], "Two models are called lm: name one of them"),
        (["=lm"], "=lm has no name before =: give one, as in name=lm, or leave out =."),
        (["{model}", "--host", "0.0.0.0"], "--host 0.0.0.0 lets other machines in: give --api-key-file, or --no-key"),
        (["{model}", "--port", "70000"], "--port is 70000; expected 0 to 65,535"),
        (["{model}", "--api-key-file", "{folder}/none"], "cannot be read: No such file or directory"),
        (["{model}", "--api-key-file", "{folder}/short"], "expected one line with a key of 8 or more"),
        (["{model}", "--memory", "-1"], "--memory is -1.0; give a number of gigabytes above 0"),
        (["{folder}/none", "--port", "0"], "none: there is no such folder or file; expected a model"),
        (["{folder}/stopped", "--port", "0"], "stopped: training into this folder was stopped before its first"),
        pytest.param(
            ["{folder}/short", "--port", "0", "--workers", "2"],
            "short: a model is a folder, a file whose name ends in",
            marks=pytest.mark.thorough,
        ),
        (["{model}", "--workers", "0"], "workers is 0; expected 1 to 256"),
        (["{model}", "--max-tokens", "0"], "--max-tokens is 0; expected more than 0"),
        (["{model}", "--no-exit-on-failure"], "There is no option --no-exit-on-failure"),
    ],
    ids=str,
)
def test_errors_are_one_line(
    chainrule: Callable[..., Result], model: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "short").write_text("abc\n")
    (tmp_path / "stopped" / "checkpoints").mkdir(parents=True)
    filled = [argument.format(model=model, folder=tmp_path) for argument in arguments]
    assert message in chainrule("serve", *filled).error
