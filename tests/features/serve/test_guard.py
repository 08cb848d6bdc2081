"""Who may ask, how much, and what strange requests get: an answer, never an error of the server."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import h11
import httpx
import pytest
from running import Running, running

from chainrule.decoding.sampling import Batch
from chainrule.errors import ChainruleError, SettingError
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.config import ServeOptions, ServerLimits
from chainrule.features.serve.guard import Guard
from chainrule.features.serve.metrics import Metrics
from chainrule.features.serve.server import ServerSettings, bind, run_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from chainrule.decoding.sampling import BatchStep

KEY = "abcdefgh12345678"
PATIENCE = 60  # seconds, with what comes at once: only a test that fails waits so long
TINY = {"prompt": "ka", "max_tokens": 2}


@pytest.fixture(scope="module")
def locked(folders: dict[str, Path]) -> Iterator[Running]:
    """A server with a key and small limits."""
    with running({"lm": folders["ngram"]}, key=KEY, body_bytes=50_000) as server:
        yield server


def raw(server: Running, data: bytes) -> bytes:
    """What the server answers to some bytes, until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        return rest_of(connection)


def rest_of(connection: socket.socket) -> bytes:
    """What comes until the server closes it. Raises TimeoutError if it never does."""
    answer = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            answer += part
    return answer


def routes(server: Running) -> list[tuple[str, str]]:
    paths = server.client.get("/openapi.json", headers={"x-api-key": KEY}).json()["paths"]
    return [(method.upper(), path.replace("{name}", "lm")) for path, methods in paths.items() for method in methods]


def test_the_key_covers_every_route_but_health(locked: Running) -> None:
    asked = [*routes(locked), ("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/v1/tokenize")]
    assert len(asked) > 14
    for method, path in asked:
        body = {"json": TINY} if method == "POST" else {}
        for headers in ({}, {"authorization": f"Bearer {KEY[:-1]}x"}, {"x-api-key": ""}, {"authorization": "Bearer"}):
            response = locked.client.request(method, path, headers=headers, **body)
            assert response.status_code == (200 if path == "/health" else 401), (method, path)
            if path != "/health":
                assert response.json()["error"]["code"] == "invalid_api_key"
    for headers in ({"authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}, {"x-api-key": KEY}):
        assert locked.client.get("/v1/models", headers=headers).status_code == 200


def test_an_empty_key_is_fine_where_none_is_set(served: Running) -> None:
    request = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \r\nConnection: close\r\n\r\n"
    assert raw(served, request).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("LOCALHOST", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example:80", 403),
        ("localhost.evil.example", 403),
        ("0.0.0.0", 403),
        ("", 403),
    ],
)
def test_pages_that_rebind_their_name_are_refused(served: Running, host: str, status: int) -> None:
    answer = raw(served, f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_pages_of_other_origins_are_refused_before_their_body_is_read(served: Running) -> None:
    response = served.client.post("/v1/completions", json=TINY, headers={"origin": "http://evil.example"})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers
    assert served.client.post("/v1/completions", json=TINY, headers={"origin": served.url}).status_code == 200
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        data = json.dumps(TINY).encode()
        response = served.client.post("/v1/completions", content=data, headers={"content-type": kind})
        assert response.status_code == 415


def test_pages_of_allowed_origins_may_ask(folders: dict[str, Path]) -> None:
    page = "https://app.example"
    asks = {"origin": page, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    with running({"lm": folders["ngram"]}, key=KEY, origins=(page,)) as server:
        may = server.client.options("/v1/completions", headers=asks)
        assert (may.status_code, may.headers["access-control-allow-origin"]) == (204, page)
        assert may.headers["access-control-allow-headers"] == "authorization"
        assert "POST" in may.headers["access-control-allow-methods"]
        for key, status in ((KEY, 200), ("wrong", 401)):
            headers = {"origin": page, "authorization": f"Bearer {key}"}
            answer = server.client.post("/v1/completions", json=TINY, headers=headers)
            assert answer.status_code == status
            assert answer.headers["access-control-allow-origin"] == page  # so that the page can read an error
            assert answer.headers["vary"] == "Origin"
        other = server.client.options("/v1/completions", headers={**asks, "origin": "https://app.example.evil"})
        assert other.status_code == 403
        assert "access-control-allow-origin" not in other.headers
    with pytest.raises(SettingError, match=r"'app.example' is no origin; expected scheme, host and port"):
        ServeOptions(origins=("app.example",))


def test_a_connection_that_broke_the_protocol_is_no_failure_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn has refused the rest of the request, so that h11 takes no answer: also none that is an error."""
    sent: list[Any] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message["type"])
        raise h11.LocalProtocolError("can't handle event type Response when role=SERVER and state=ERROR")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ApiError(408, "late")

    guard = Guard(app, key=None, hosts=None, limits=ServerLimits(), metrics=Metrics())
    scope = {"type": "http", "method": "GET", "path": "/v1/models", "headers": [(b"host", b"x")], "http_version": "1.1"}
    monkeypatch.setattr("chainrule.features.serve.guard.LOG.exception", sent.append)
    asyncio.run(guard(scope, None, send))
    assert sent == ["http.response.start", "http.response.body"]


def test_large_bodies_are_refused(locked: Running) -> None:
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    long = b'{"prompt": "' + b"a" * 60_000 + b'"}'
    assert locked.client.post("/v1/completions", content=long, headers=headers).status_code == 413
    chunks = (long[i : i + 1000] for i in range(0, len(long), 1000))
    assert locked.client.post("/v1/completions", content=chunks, headers=headers).status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"prompt": "ka", "temperature": NaN}',
        b'{"prompt": "ka", "temperature": 1e999}',
        b'{"prompt": "\\ud800"}',
        b"[" * 40_000,
        b'{"prompt": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"prompt": [' + b"9" * 5000 + b"]}",
    ],
    ids=lambda body: repr(body[:30]),
)
def test_bodies_that_are_no_request_get_400(served: Running, body: bytes) -> None:
    response = served.client.post("/v1/completions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400, response.text
    assert response.json()["error"]["type"] == "invalid_request_error"


ODD: list[Any] = [-1, 0, 1e308, 2**63, 10**30, "1", "x", True, [], {}, [[1]], 0.5, 1e-300]


@pytest.mark.parametrize("route", ["/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/v1/score"])
def test_odd_values_in_any_field_are_answered(served: Running, route: str) -> None:
    schema = served.client.get("/openapi.json").json()["paths"][route]["post"]["requestBody"]["content"]
    names = sorted(schema["application/json"]["schema"]["properties"])
    for i, name in enumerate(names):
        for value in ODD[i % 3 :: 3]:  # all of them: make fuzz
            base = {"prompt": "ka", "input": "ka", "messages": [{"role": "user", "content": "ka"}]}
            body = {"max_tokens": 2, "model": "ngram", **base, name: value}
            response = served.client.post(route, json=body)
            assert response.status_code in (200, 400, 404), (name, value, response.text)
    assert served.client.post("/v1/completions", json=TINY).status_code == 200


def test_routes_and_methods_that_do_not_exist_get_errors_of_the_same_form(served: Running) -> None:
    for method, path, status in (
        ("GET", "/nowhere", 404),
        ("GET", "/v1/completions", 405),
        ("GET", "/v1/models/..%2f..%2fetc", 404),
        ("GET", "/static/..%2f..%2fetc/passwd", 404),
        ("GET", "/v1/models/gpt-4", 404),
    ):
        response = served.client.request(method, path)
        assert response.status_code == status
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_slow_senders_are_cut_off_and_a_connection_that_waits_between_two_requests_is_not(
    folders: dict[str, Path],
) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    whole = head + b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
    with running({"lm": folders["ngram"]}, receipt_seconds=2) as server, ExitStack() as stack:
        waiting = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)  # which never connects anew by itself
        stack.callback(waiting.close)

        def status() -> int:
            waiting.request("GET", "/v1/models")
            response = waiting.getresponse()
            response.read()
            return response.status

        assert status() == 200
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) for _ in range(3)]
        for connection, begin in zip(slow, (b"", head, whole), strict=True):
            stack.enter_context(connection)
            connection.sendall(begin)
        for connection in slow:
            rest_of(connection)
        assert status() == 200  # although it was silent for longer than they were


def test_giant_headers_are_refused(served: Running) -> None:
    answer = raw(served, b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 1_000_000 + b"\r\n\r\n")
    assert answer == b"" or answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 431 "))
    assert raw(served, b"\x00\x01\x02 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert served.client.get("/health").status_code == 200


@contextmanager
def logged(name: str) -> Iterator[list[str]]:
    """The messages of a logger, informative ones among them."""
    messages: list[str] = []
    handler, logger = logging.Handler(), logging.getLogger(name)
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield messages
    logger.setLevel(level)
    logger.removeHandler(handler)


def test_logs_hold_no_texts_and_no_lines_of_others(folders: dict[str, Path]) -> None:
    with logged("chainrule.features.serve") as messages, running({"lm": folders["ngram"]}) as server:
        server.client.post("/v1/completions", json={"prompt": "secret\r\nFORGED", "model": "evil\r\nFORGED"})
        server.client.get("/v1/models/a%0d%0aFORGED%1b[31m")
        server.client.get("/x%0d%0aFORGED")
    assert len([message for message in messages if "/health" not in message]) == 3  # which tells it is ready
    assert not any("FORGED" in message or "secret" in message for message in messages)


def test_an_error_of_the_server_shows_no_path_and_no_source(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError(f"at {folders['ngram']}")

    with running({"lm": folders["ngram"]}) as server:
        assert server.client.post("/v1/completions", json=TINY).status_code == 200
        monkeypatch.setattr("chainrule.features.serve.generation.scheduler.Batch.step", fail)
        response = server.client.post("/v1/completions", json=TINY)
        assert response.status_code == 500
        assert response.headers["x-request-id"] in response.text
        assert str(folders["ngram"]) not in response.text
        assert "Traceback" not in response.text
        for _ in range(2):
            server.client.post("/v1/completions", json=TINY)
        assert server.client.get("/health").status_code == 503


def test_a_model_that_fails_ends_the_server_where_that_is_set(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("chainrule.features.serve.generation.scheduler.Batch.step", fail)
    models = (("lm", folders["ngram"]),)
    settings = ServerSettings(
        models=models,
        host="127.0.0.1",
        key=None,
        origins=(),
        memory=None,
        limits=ServerLimits(),
        exit_on_failure=True,
        draft=None,
    )
    ready, events = threading.Event(), []
    with bind("127.0.0.1", 0) as listening, ThreadPoolExecutor() as pool:
        port = listening.getsockname()[1]

        def serve() -> None:
            server = run_server(settings, listening, on_start=ready.set, on_event=lambda *event: events.append(event))
            asyncio.run(server)

        ended = pool.submit(serve)
        assert ready.wait(PATIENCE)
        assert [httpx.post(f"http://127.0.0.1:{port}/v1/completions", json=TINY).status_code for _ in range(3)] == (
            [500] * 3
        )
        with pytest.raises(ChainruleError, match="the model lm failed several times in a row, which ends the server"):
            ended.result(PATIENCE)
    assert events == [("failed several times in a row", "lm")]


def test_too_many_requests_at_once_are_told_to_come_again(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused, step = threading.Event(), Batch.step
    done: list[BatchStep] = []

    def step_once_refused(batch: Batch) -> BatchStep:
        if done:
            refused.wait(PATIENCE)
        done.append(step(batch))
        return done[-1]

    monkeypatch.setattr(Batch, "step", step_once_refused)
    with running({"lm": folders["ngram"]}, requests=1) as server:
        body = {"prompt": "ka", "max_tokens": 4000, "min_tokens": 4000, "stream": True}
        with server.client.stream("POST", "/v1/completions", json=body) as stream:
            assert stream.status_code == 200
            response = httpx.get(f"{server.url}/v1/models")
            refused.set()
            assert response.status_code == 429
            assert response.headers["retry-after"] == "1"


def rows_in_use(server: Running) -> int:
    [line] = [line for line in server.client.get("/metrics").text.splitlines() if line.startswith("chainrule_rows_in")]
    return int(line.rpartition(" ")[2])


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_that_goes_away_frees_its_rows(folders: dict[str, Path], is_stream: bool) -> None:
    with running({"lm": folders["ngram"]}) as server:
        server.client.post("/v1/completions", json=TINY)
        body = json.dumps({"prompt": "ka", "max_tokens": 4096, "min_tokens": 4096, "n": 50, "stream": is_stream})
        request = (
            f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}"
        )
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request.encode())
            until(lambda: rows_in_use(server) == 50)
        until(lambda: rows_in_use(server) == 0)
        until(lambda: 'route="/v1/completions",status="499"' in server.client.get("/metrics").text or is_stream)


def test_running_answers_end_when_the_server_stops(folders: dict[str, Path]) -> None:
    with running({"lm": folders["ngram"]}) as server:
        body = {"prompt": "ka", "max_tokens": 300, "min_tokens": 300, "stream": True}
        with server.client.stream("POST", "/v1/completions", json=body) as stream:
            lines = stream.iter_lines()
            found = [next(lines)]  # which may be the whole answer, where this process waits long
            server.server.should_exit = True
            found += [line for line in lines if line]
        assert found[-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in found[-2]


def test_a_stopping_server_refuses_requests_and_ends_answers_that_take_too_long(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr("chainrule.features.serve.server.time", SimpleNamespace(monotonic=lambda: clock.now))
    body = {"prompt": "ka", "max_tokens": 4096, "min_tokens": 4096, "n": 50}
    limits = {"stopping_seconds": 1, "rows": 100, "running_tokens": 1 << 20}
    with running({"lm": folders["ngram"]}, **limits) as server, ThreadPoolExecutor(1) as thread:
        whole = thread.submit(httpx.post, f"{server.url}/v1/completions", json=body, timeout=PATIENCE)
        with server.client.stream("POST", "/v1/completions", json={**body, "stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            until(lambda: rows_in_use(server) == 100)
            server.server.should_exit = True
            until(lambda: httpx.get(f"{server.url}/health").status_code == 503)
            refused = httpx.post(f"{server.url}/v1/completions", json=TINY)
            clock.now = 2.0
            rest = [line for line in lines if line]
        answer = whole.result()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "stopping")
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["error"]["code"] == "stopping"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_answers_are_sent_without_delay() -> None:
    """asyncio sets TCP_NODELAY only where the protocol is named; without it, every answer waits 40 ms."""
    with bind("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
