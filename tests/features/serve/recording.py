"""A proxy that notes what clients send and what the server answers, and the table of it, bench/results/clients.md."""

from __future__ import annotations

import http.client
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RECORD = Path(__file__).parents[3] / "bench" / "results" / "clients.md"
BEGIN, END = "<!-- The table is written by make test-clients. -->", "<!-- The end of the table. -->"
_LONGEST = 170  # characters of a message
_HOP = {"transfer-encoding", "connection", "keep-alive", "date", "server"}


class Call(NamedTuple):
    """A request and its answer. fields: the names in its body. refusal: the message of an error. ignored: x-ignored."""

    client: str
    route: str
    fields: frozenset[str]
    status: int
    refusal: str
    ignored: str


class Recorder(ThreadingHTTPServer):
    """Forwards every request to a server; the first part of its path is the name of the client."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(url).netloc
        self.calls: list[Call] = []

    def url(self, client: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{client}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Recorder

    def _forward(self) -> None:
        _, client, path = self.path.split("/", 2)
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name: value for name, value in self.headers.items() if name.lower() not in {*_HOP, "host"}}
        connection = http.client.HTTPConnection(self.server.behind, timeout=280)
        connection.request(self.command, f"/{path}", body or None, {**headers, "Host": self.server.behind})
        answer = connection.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        parts = []
        while part := answer.read1(1 << 16):
            parts.append(part)
            self.wfile.write(part)
        connection.close()
        self.server.calls.append(_call(client, f"/{path}", body, answer.status, b"".join(parts), answer.headers))

    def do_GET(self) -> None:
        self._forward()

    def do_POST(self) -> None:
        self._forward()

    def log_message(self, *arguments: object) -> None:
        pass


def _call(client: str, route: str, body: bytes, status: int, answer: bytes, headers: Mapping[str, str]) -> Call:
    sent = json.loads(body) if body[:1] == b"{" else {}
    refusal = json.loads(answer)["error"]["message"] if status >= 400 else ""
    if route.startswith("/v1/models/"):
        route = "/v1/models/..."
    fields = frozenset(_field(name, value) for name, value in sent.items())
    return Call(client, route, fields, status, refusal, headers.get("x-ignored") or "")


def _field(name: str, value: Any) -> str:
    """The name of a field, with what is unusual about its value."""
    if name == "stream" and value is False:
        return "stream (false)"
    if value is None:
        return f"{name} (null)"
    if name in ("messages", "input") and isinstance(value, list) and any(isinstance(row, dict) for row in value):
        parts = [part for row in value for part in (row.get("content") if isinstance(row.get("content"), list) else [])]
        kinds = sorted({str(part.get("type")) for part in parts})
        return f"{name} (parts: {', '.join(kinds)})" if kinds else name
    if name == "prompt" and isinstance(value, list) and value and not isinstance(value[0], str):
        return "prompt (token ids)"
    if name == "input" and isinstance(value, list) and value and not isinstance(value[0], str | dict):
        return "input (token ids)"
    return name


@contextmanager
def recording(url: str) -> Iterator[Recorder]:
    """A recorder in front of the server at this address."""
    with Recorder(url) as recorder:
        thread = threading.Thread(target=recorder.serve_forever)
        thread.start()
        try:
            yield recorder
        finally:
            recorder.shutdown()
            thread.join()


def table_of(calls: Sequence[Call], versions: Mapping[str, str]) -> str:
    """What each client sends, and the answers: a row for each client and route, another for each refusal."""
    rows: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        route = f"`{call.route}`" + (", streamed" if "stream" in call.fields else "")
        rows.setdefault((call.client, route, _shown(call.refusal)), []).append(call)
    lines = ["| client | asks | sends | answer |", "|---|---|---|---|"]
    for client in versions:
        for (name, route, refusal), some in sorted(rows.items()):
            if name != client:
                continue
            fields = sorted(set().union(*(call.fields for call in some)) - {"stream"})
            ignored = sorted({field for call in some for field in call.ignored.split(",") if field})
            answer = f"{some[0].status}: {refusal}" if refusal else "works"
            answer += f"; {', '.join(ignored)}: no effect, as `x-ignored` says" if ignored else ""
            sent = ", ".join(f"`{field}`" for field in fields)
            lines.append(f"| {client} {versions[client]} | {route} | {sent} | {answer} |")
    return "\n".join(lines)


def _shown(message: str) -> str:
    message = re.sub(r"\s+", " ", message).replace("|", "\\|").replace("<", "&lt;")
    return message if len(message) <= _LONGEST else message[:_LONGEST].rsplit(" ", 1)[0] + " ..."


def write_table(table: str) -> None:
    """Write the table into the record."""
    text = RECORD.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    RECORD.write_text(f"{text[:begin]}\n\n{table}\n\n{text[end:]}")
