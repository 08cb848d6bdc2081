"""chat and complete that ask a server: ours as it is, and others by what they answer."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from command_line import strict_json

import chainrule as library
from chainrule.errors import ChainruleError, ServerError, SettingError
from chainrule.features.chat.client import Client, RemoteChat, sampling_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Server(ThreadingHTTPServer):
    """Answers every POST alike, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.kind, self.status, self.answer = "text/event-stream", 200, b""
        self.models: list[str] = ["only"]
        self.bodies: list[Any] = []
        self.most_messages = 100
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def stream(self, *events: object) -> None:
        lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
        self.answer = b"".join(b"data: %s\n\n" % line.encode() for line in lines)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._send(
            200, "application/json", json.dumps({"data": [{"id": name} for name in self.server.models]}).encode()
        )

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.server.keys.append(self.headers["authorization"])
        if len(self.server.bodies[-1]["messages"]) > self.server.most_messages:
            message = "This model's maximum context length is 9 tokens. However, you requested more"
            error = {"error": {"message": message, "code": "context_length_exceeded"}}
            self._send(400, "application/json", json.dumps(error).encode())
            return
        self._send(self.server.status, self.server.kind, self.server.answer)

    def _send(self, status: int, kind: str, answer: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def delta(text: str, reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": reason}]}


def test_a_conversation_goes_to_the_server_and_its_answer_streams(
    chainrule, stdin, server: Server, tmp_path: Path
) -> None:
    server.stream({"choices": [{"delta": {"role": "assistant"}}]}, delta("Hel"), delta("lo", "length"), "[DONE]")
    stdin(b"one\n/temperature 0\ntwo\n")
    (tmp_path / "key").write_text("secret\n")
    options = ("--url", server.url, "--system", "be brief", "--stop", "x", "--max-tokens", 7, "--json")
    result = chainrule("chat", *options, "--api-key-file", tmp_path / "key", "--log", tmp_path / "log.jsonl")
    assert result.status == 0
    assert strict_json(result.lines[0]) == {"role": "assistant", "content": "Hello", "ending": "length"}
    system, one, two = (
        {"role": role, "content": text} for role, text in [("system", "be brief"), ("user", "one"), ("user", "two")]
    )
    answer = {"role": "assistant", "content": "Hello"}
    common = {"model": "only", "stream": True, "max_tokens": 7, "stop": ["x"]}
    assert server.bodies[0] == {**common, "messages": [system, one]}  # what nobody set is left to the server
    assert server.bodies[1] == {**common, "messages": [system, one, answer, two], "temperature": 0}
    assert server.keys == ["Bearer secret"] * 2
    logged = [strict_json(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [{name: row[name] for name in ("role", "content")} for row in logged] == [system, one, answer, two, answer]
    assert all(row["time"].endswith("+00:00") for row in logged)


def test_settings_are_named_as_requests_name_them() -> None:
    sampling = library.SamplingConfig(temperature=0.5, top_k=3, typical=0.9, presence_penalty=1.0)
    assert sampling_settings(sampling) == {"temperature": 0.5, "top_k": 3, "typical_p": 0.9, "presence_penalty": 1.0}


def test_seeds_make_each_answer_another_one(server: Server) -> None:
    server.stream(delta("a", "stop"))
    chat = RemoteChat(Client(server.url, "m"))
    for number in (0, 1):
        answer = chat.answer([{"role": "user", "content": "a"}], seed=2**63 - 1, number=number)
        assert ("".join(answer), answer.ending) == ("a", "end")
    assert [body["seed"] for body in server.bodies] == [2**63 - 1, 0]


def test_messages_that_a_server_cannot_read_together_are_left_out_and_told(server: Server) -> None:
    server.stream(delta("a", "stop"))
    server.most_messages = 4
    talk = [{"role": role, "content": str(i)} for i in range(5) for role in ("user", "assistant")][:-1]
    answer = RemoteChat(Client(server.url, "m")).answer([{"role": "system", "content": "s"}, *talk])
    assert ("".join(answer), answer.dropped) == ("a", 8)
    assert [len(body["messages"]) for body in server.bodies] == [10, 2]
    server.most_messages = 0
    with pytest.raises(ServerError, match="maximum context length is 9"):
        "".join(RemoteChat(Client(server.url, "m")).answer(talk))


def test_a_server_that_does_not_stream_is_understood(server: Server) -> None:
    server.kind = "application/json"
    server.answer = json.dumps({"choices": [{"message": {"content": "all"}, "finish_reason": "stop"}]}).encode()
    assert "".join(RemoteChat(Client(server.url)).answer([{"role": "user", "content": "a"}])) == "all"


@pytest.mark.parametrize(
    ("status", "kind", "answer", "message"),
    [
        (401, "application/json", b'{"error": {"message": "wrong key"}}', "401 Unauthorized: wrong key"),
        (422, "application/json", b'{"detail": "no such field"}', "422 .*: no such field"),
        (500, "text/html", b"<h1>", "500 Internal Server Error$"),
        (200, "text/html", b"<h1>", "not a JSON object"),
        (200, "text/event-stream", b"data: {\n\n", "not a JSON object"),
        (200, "text/event-stream", b'data: {"error": {"message": "out of memory"}}\n\n', "out of memory"),
    ],
)
def test_what_a_server_refuses_is_said_in_a_line(
    status: int, kind: str, answer: bytes, message: str, server: Server
) -> None:
    server.status, server.kind, server.answer = status, kind, answer
    with pytest.raises(ServerError, match=message):
        "".join(RemoteChat(Client(server.url, "m")).answer([{"role": "user", "content": "a"}]))


def test_several_models_must_be_named(server: Server) -> None:
    server.models = ["a", "b"]
    with pytest.raises(SettingError, match=r"2 models \(a, b\); name one"):
        _ = Client(server.url).model


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://a/v1", "http://", "http://a/v1?b=c"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ChainruleError, match="expected an address such as"):
        Client(url)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["chat"], "A model is missing: name one, or a server with --url."),
        (["chat", "lm", "--api-key-file", "key"], "--api-key-file needs --url"),
        (["chat", "--url", "http://127.0.0.1:9", "--template", "t"], "--template is for models on this machine"),
        (["complete", "--url", "http://127.0.0.1:9", "--no-correct"], "leave out the options of the model"),
    ],
)
def test_options_that_contradict_each_other_are_errors(arguments: list[str], message: str, chainrule) -> None:
    result = chainrule(*arguments)
    assert result.status == 2
    assert message in result.err


def test_a_server_that_is_not_there_is_an_error(chainrule, stdin) -> None:
    stdin(b"a\n")
    result = chainrule("complete", "--url", "http://127.0.0.1:9/v1")
    assert result.status == 1
    assert "http://127.0.0.1:9/v1: cannot be reached: Connection refused; is the server running?" in result.error
