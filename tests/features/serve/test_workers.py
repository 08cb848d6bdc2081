"""Several processes of one server: what they report together, and what happens when one or their parent ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chainrule.base.threads import set_threads
from chainrule.features.serve.metrics import WorkerState, WorkerStates, prometheus_text
from chainrule.features.serve.processes import threads_of_each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECONDS = 60
KEY = "abcdefgh12345678"


def children(parent: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Workers:
    """A server with two workers."""

    def __init__(self, model: Path, key_file: Path) -> None:
        key_file.write_text(KEY)
        command = [sys.executable, "-m", "chainrule", "serve", f"lm={model}", "--port", "0", "--workers", "2"]
        command += ["--api-key-file", str(key_file)]
        self.scratch = key_file.parent / "scratch"
        self.scratch.mkdir()
        environment = {**os.environ, "TMPDIR": str(self.scratch)}
        self.parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        assert self.parent.stdout is not None
        self.line = self.parent.stdout.readline().decode()
        self.url = next(word for word in self.line.split() if word.startswith("http")).removesuffix("/v1;")

    def ask(self, path: str, body: Any = None) -> str:
        """On a connection of its own, so that any worker may answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.url}{path}", data, headers), timeout=SECONDS
        ) as answer:
            text: str = answer.read().decode()
            return text

    def count(self, name: str) -> int:
        return sum(int(line.split()[-1]) for line in self.ask("/metrics").splitlines() if line.startswith(name))

    @property
    def pids(self) -> set[int]:
        return children(self.parent.pid)


@pytest.fixture
def workers(folders: dict[str, Path], tmp_path: Path) -> Iterator[Workers]:
    server = Workers(folders["ngram"], tmp_path / "key.txt")
    pids = server.pids
    yield server
    server.parent.kill()
    server.parent.communicate()
    for pid in pids | server.pids if server.parent.poll() is None else pids:
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def test_workers_answer_for_all_and_are_replaced(workers: Workers) -> None:
    assert workers.line.startswith("serving lm with 2 workers on http://127.0.0.1:")
    answers = {
        workers.ask("/v1/completions", {"prompt": "ka", "seed": 1}).split('"text"')[1].split('"usage"')[0]
        for _ in range(20)
    }
    assert len(answers) == 1  # whoever answers
    until(lambda: workers.count('chainrule_requests_total{route="/v1/completions",status="200"}') == 20)
    until(lambda: workers.count("chainrule_workers ") == 2)  # the other one is left out while it is too busy to answer
    assert json.loads(workers.ask("/health")) == {"status": "ok"}
    killed, kept = sorted(workers.pids)
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(workers.pids - {killed}) == 2)
    until(lambda: workers.count("chainrule_workers ") == 2)
    assert kept in workers.pids
    pids = workers.pids
    workers.parent.send_signal(signal.SIGTERM)
    _, log = workers.parent.communicate(timeout=SECONDS)
    assert workers.parent.returncode == -signal.SIGTERM
    assert not list(workers.scratch.glob("chainrule-*"))
    assert not any(map(is_running, pids))
    assert b"ended with signal 9; another one takes its place" in log
    assert b"Traceback" not in log


@pytest.mark.thorough
def test_workers_end_with_their_parent(workers: Workers) -> None:
    pids = workers.pids
    assert len(pids) == 2
    workers.parent.kill()
    until(lambda: not any(map(is_running, pids)))


def test_workers_share_the_processors_unless_a_number_of_threads_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHAINRULE_THREADS", raising=False)
    monkeypatch.setattr("chainrule.base.threads._threads", None)
    monkeypatch.setattr("chainrule.features.serve.processes.thread_count", lambda: 5)
    assert [threads_of_each(count) for count in (1, 2, 8)] == [5, 2, 1]
    set_threads(3)
    try:
        assert threads_of_each(8) == 3
    finally:
        set_threads(None)


def test_what_processes_report_is_added() -> None:
    first = {
        "chainrule_workers": 1,
        'chainrule_requests_total{route="/a",status="200"}': 2,
        'chainrule_request_seconds_sum{route="/a"}': 0.25,
    }
    second = {
        "chainrule_workers": 1,
        'chainrule_requests_total{route="/b",status="404"}': 3,
        'chainrule_requests_total{route="/a",status="200"}': 5,
        'chainrule_request_seconds_sum{route="/a"}': 0.5,
    }
    lines = [line for line in prometheus_text([first, second]).splitlines() if not line.startswith("#")]
    assert lines == [
        "chainrule_workers 2",
        'chainrule_requests_total{route="/a",status="200"} 7',
        'chainrule_requests_total{route="/b",status="404"} 3',
        'chainrule_request_seconds_sum{route="/a"} 0.750000',
    ]


def test_a_process_that_has_gone_or_hangs_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patience = "chainrule.features.serve.metrics._PATIENCE_SECONDS"
    monkeypatch.setattr(patience, SECONDS)
    states = [WorkerState([], {"a": 1}), WorkerState(["lm"], {"a": 2, "b": 0.5})]

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def ask() -> list[WorkerState]:
        first, second = (WorkerStates(lambda i=i: states[i], tmp_path, i) for i in range(2))
        async with first.shown():
            async with second.shown():
                both = await first.all()
            monkeypatch.setattr(patience, 0.05)
            async with await asyncio.start_unix_server(hang, tmp_path / "3"):
                assert await first.all() == states[:1]
        return both

    assert asyncio.run(ask()) == states
