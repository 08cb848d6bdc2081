"""chainrule chat as a person sees it: in a terminal, with a server whose answer never ends."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    shutil.which("tmux") is None, reason="tmux is not installed: nobody looks at the screen"
)


class Endless(BaseHTTPRequestHandler):
    """Says tick, with an escape sequence, until the other side hangs up."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        event = {"choices": [{"delta": {"content": "tick\x1b[31m "}, "finish_reason": None}]}
        with suppress(OSError):
            while not self.server.is_closed.is_set():  # type: ignore[attr-defined]
                self.wfile.write(b"data: %s\n\n" % json.dumps(event).encode())
                time.sleep(0.05)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.is_closed = threading.Event()  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.is_closed.set()  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


class Terminal:
    """A terminal of tmux that runs one command."""

    def __init__(self, folder: Path, *command: str) -> None:
        self._tmux = ["tmux", "-S", str(folder / "socket"), "-f", os.devnull]
        self("new-session", "-d", "-x", "100", "-y", "30", shlex.join(command))

    def __call__(self, *arguments: str) -> str:
        return subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True).stdout

    def type(self, *keys: str) -> None:
        self("send-keys", *keys)

    def wait_for(self, text: str, seconds: float = 60) -> str:
        """The screen, once it shows a text."""
        end = time.monotonic() + seconds
        while text not in (screen := self("capture-pane", "-p")):
            assert time.monotonic() < end, screen
            time.sleep(0.1)
        return screen


def test_an_answer_streams_until_it_is_stopped_and_the_program_goes_on(url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chainrule", "chat", "model", "--url", url]
    terminal = Terminal(tmp_path, "bash", "-c", f"{shlex.join(command)}; echo status $?; read")
    try:
        terminal.wait_for("Ctrl-C stops an answer")
        terminal.type("hello", "Enter")
        terminal.wait_for(r"tick\x1b[31m tick\x1b[31m")  # and nothing turns red
        terminal.type("C-c")
        terminal.wait_for("...\n>")
        terminal.type("/temperature 0.5", "Enter")
        terminal.wait_for("the temperature is 0.5")
        terminal.type("C-d")
        terminal.wait_for("status 0")
    finally:
        terminal("kill-server")
