"""The pages of first steps: their commands, run in order in an empty folder, print what the pages show."""

from __future__ import annotations

import io
import math
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from samples import sampled

from chainrule.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(page.name for page in DOCS.glob("first-steps-*.md"))
PORT = "8000"  # that pages name; here, a free one is used in its place
PATIENCE = 60  # seconds until a server answers
# What networks learn differs a little between processors.
TOLERANCE = 0.03


class Step(NamedTuple):
    """The commands of a block, and the screen that the page shows below it: nothing where there is none."""

    commands: list[str]
    screen: str


def steps_of(page: str) -> list[Step]:
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^```console\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.DOTALL | re.MULTILINE)
    assert text.count("\n```text\n") == sum(bool(screen) for _, screen in found), "a screen without its commands"
    return [Step([line.removeprefix("$ ") for line in block.splitlines()], screen) for block, screen in found]


def differences(shown: str, printed: str) -> str:
    """Return how a screen differs from what a page shows; nothing if it does not.

    `...` stands for anything. Spaces in a row are one; figures with a decimal point may differ by `TOLERANCE`.
    """
    figure = r"\d[\d,]*\.\d+"
    kinds = {r"\.\.\.": ".*?", r"\s+": r"\s+", figure: f"({figure})"}
    pattern = ""
    for part in re.split(f"({'|'.join(kinds)})", shown.strip()):
        pattern += next((kind for sign, kind in kinds.items() if re.fullmatch(sign, part)), re.escape(part))
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    if match is None:
        return f"shown:\n{shown}\nprinted:\n{printed}"
    pairs = zip(re.findall(figure, shown), match.groups(), strict=True)
    far = [pair for pair in pairs if not is_close(*(float(number.replace(",", "")) for number in pair))]
    return f"{far} in\n{printed}" if far else ""


def is_close(shown: float, printed: float) -> bool:
    return math.isclose(shown, printed, rel_tol=TOLERANCE, abs_tol=0.02)


class Shell:
    """Runs the commands of a page: ours, which are many, in this process; others, and servers, in a shell."""

    def __init__(self) -> None:
        self.servers: list[subprocess.Popen[bytes]] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])

    def screen_of(self, command: str) -> str:
        """Run a command and return what appears on the screen, with the port of the page."""
        command = re.sub(rf"(?<=[ :]){PORT}\b", self.port, command)
        if command.startswith("chainrule serve "):
            return self.serve(command).replace(self.port, PORT)
        if command.startswith("chainrule ") and not re.search(r"[|<>;]", command):
            screen = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            with redirect_stdout(screen), redirect_stderr(screen):
                status = run(shlex.split(command)[1:])
            printed = screen.buffer.getvalue().decode()  # type: ignore[attr-defined]
        else:
            done = subprocess.run(**self.in_shell(command), capture_output=True, text=True, check=False)
            status, printed = done.returncode, done.stderr + done.stdout
        assert status == 0, f"{command}\n{printed}"
        return printed.replace(self.port, PORT)

    def serve(self, command: str) -> str:
        """Start a server, and return what it printed until it answered."""
        log = Path("server.log")
        with log.open("w") as screen:
            server = subprocess.Popen(**self.in_shell(f"exec {command}"), stdout=screen, stderr=screen)
        self.servers.append(server)
        began = time.monotonic()
        while not (self.answers() and log.read_text()):
            assert server.poll() is None, log.read_text()
            assert time.monotonic() - began < PATIENCE, "the server does not answer"
            time.sleep(0.1)
        return log.read_text()

    def answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", int(self.port))) == 0

    def close(self) -> None:
        for server in self.servers:
            server.terminate()
            server.wait(PATIENCE)

    @staticmethod
    def in_shell(command: str) -> dict[str, Any]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"args": ["bash", "-o", "pipefail", "-c", command], "env": {**os.environ, "PATH": path}}


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.chdir(tmp_path)
    shell = Shell()
    yield shell
    shell.close()


def test_there_are_four_pages() -> None:
    assert len(PAGES) == 4


@pytest.mark.parametrize("page", sampled(PAGES, ["first-steps-engineer.md", "first-steps-student.md"]))
def test_the_commands_of_a_page_print_what_it_shows(page: str, shell: Shell) -> None:
    if "curl " in (DOCS / page).read_text(encoding="utf-8") and shutil.which("curl") is None:
        pytest.skip("NOT TESTED: a page of first steps, since there is NO curl")
    for step in steps_of(page):
        printed = "".join(shell.screen_of(command) for command in step.commands)
        assert differences(step.screen, printed) == "", step.commands


@pytest.mark.parametrize("page", PAGES)
def test_a_page_takes_ten_minutes(page: str) -> None:
    assert 300 <= len((DOCS / page).read_text(encoding="utf-8").split()) <= 500


def test_screens_are_compared_by_words_and_figures() -> None:
    assert differences("a  1.00\nb ... c", "a 1.01\nb took 3 s c\n") == ""
    assert differences("a 1.00", "a 1.10") != ""
    assert differences("a 3", "a 4") != ""
    assert differences("", "note: anything") != ""
