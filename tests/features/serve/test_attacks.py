"""Requests that clients of good will do not send: refused or answered at once, and no work is left of them."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from chainrule.errors import TextError
from chainrule.features.serve.app import _stream, build_app
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.generation.pictures import check_pixels
from chainrule.features.serve.metrics import WorkerState, WorkerStates
from chainrule.features.serve.models import ModelTable
from chainrule.features.serve.service import Service
from chainrule.features.vision.pictures.codec import encode_png, pixel_count

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from running import Running

    Message = dict[str, Any]

TINY = {"prompt": "ka", "max_tokens": 2}


def until_closed(server: Running, data: bytes) -> bytes:
    """What the server answers to some bytes until it closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(data)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def post(body: bytes, *headers: str, version: str = "1.1") -> bytes:
    lines = [f"POST /tokenize HTTP/{version}", "Host: localhost", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


CHUNKED = b'f\r\n{"prompt":"ka"}\r\n0\r\n\r\n'


@pytest.mark.parametrize(
    "request_bytes",
    [
        post(CHUNKED, f"Content-Length: {len(CHUNKED)}", "Transfer-Encoding: chunked"),
        post(CHUNKED, "Transfer-Encoding: chunked", "Content-Length: 4"),
        post(CHUNKED, "Transfer-Encoding: chunked", version="1.0"),
    ],
    ids=["both", "a wrong length", "before HTTP/1.1"],
)
def test_a_request_with_two_ends_is_refused_and_the_connection_closed(served: Running, request_bytes: bytes) -> None:
    """RFC 9112, 6.1: a proxy that reads the other one takes what follows for a request of somebody else."""
    answer = until_closed(served, request_bytes + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head.lower()
    assert b"Transfer-Encoding with" in body
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_body_in_chunks_is_read(served: Running) -> None:
    answer = until_closed(served, post(CHUNKED, "Transfer-Encoding: chunked", "Connection: close"))
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8731:1", "localhost:1:", "localhost:x", "localhost:123456", "localhost :1", "a@localhost"),
        *("localhost/", "[::1", "[::1]x", "[::1]:1:1", "[localhost]:1", "::1", "http://localhost"),
    ],
)
def test_a_host_header_that_is_no_host_is_refused(served: Running, host: str) -> None:
    answer = until_closed(served, f"GET /health HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"invalid_host" in answer


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "http://localhost:x:y"])
def test_an_origin_that_is_no_address_is_another_one(served: Running, origin: str) -> None:
    response = served.client.post("/v1/completions", json=TINY, headers={"origin": origin})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "wrong_origin")


@pytest.mark.parametrize(
    ("route", "field", "value"),
    [
        ("/v1/completions", "tool_choice", "required"),
        ("/v1/completions", "tools", [{"type": "function"}]),
        ("/v1/chat/completions", "functions", [{"name": "a"}]),
        ("/v1/chat/completions", "function_call", {"name": "a"}),
    ],
)
def test_what_a_client_relies_on_and_the_server_cannot_do_is_refused(
    served: Running, route: str, field: str, value: Any
) -> None:
    body = {"messages": [{"role": "user", "content": "ka"}]} if "chat" in route else TINY
    response = served.client.post(route, json={**body, field: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", field, "unsupported_parameter")
    assert error["message"].startswith(f"{field}: ")


def test_what_says_no_more_than_the_default_is_accepted(served: Running) -> None:
    text = {"response_format": {"type": "text"}}
    for fields in ({}, text, {"response_format": None}):
        assert served.client.post("/v1/completions", json={**TINY, **fields}).status_code == 200
    chat = {"messages": [{"role": "user", "content": "ka"}], "model": "ngram"}
    plain = served.client.post("/v1/chat/completions", json=chat).json()  # this model has no template
    for fields in ({**text, "tools": [], "tool_choice": "none"}, {"tools": None, "tool_choice": None}):
        assert served.client.post("/v1/chat/completions", json={**chat, **fields}).json() == plain
    assert plain["error"]["param"] == "model"


def picture(height: int, width: int) -> str:
    return base64.b64encode(encode_png(np.zeros((height, width, 1), np.uint8))).decode()


def test_the_pixels_of_all_pictures_of_a_request_have_a_bound() -> None:
    assert pixel_count(base64.b64decode(picture(30, 20)), "it") == 600
    files = [picture(30, 20), f"data:image/png;base64,{picture(10, 10)}"]
    check_pixels(files, 700)
    with pytest.raises(ApiError, match=r"have 700 pixels together; expected at most 699\. Send fewer") as refused:
        check_pixels(files, 699)
    assert (refused.value.status, refused.value.param) == (400, "input")
    with pytest.raises(TextError, match="it: is not a JPEG or PNG picture"):
        pixel_count(b"no picture", "it")


class Answer:
    """An answer of three chunks, which never waits between them."""

    def __init__(self) -> None:
        self.is_abandoned = False

    async def chunks(self) -> AsyncIterator[dict[str, int]]:
        try:
            for number in range(3):
                yield {"chunk": number}
        finally:
            self.abandon()

    def abandon(self) -> None:
        self.is_abandoned = True


STREAM_SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


def test_the_work_of_a_stream_is_dropped_as_soon_as_its_client_goes() -> None:
    """Also while its client is slow to take a chunk; a generator alone would end when Python collects it."""
    is_gone = asyncio.Event()

    async def receive() -> Message:
        await is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message.get("body"):
            is_gone.set()
            await asyncio.Event().wait()

    async def scene() -> bool:
        answer = Answer()
        await _stream(answer, [])(STREAM_SCOPE, receive, send)  # type: ignore[arg-type]
        return answer.is_abandoned

    assert asyncio.run(scene())


def test_a_lost_connection_can_be_noticed_between_any_two_chunks() -> None:
    """Else what is written to it meanwhile is a warning each in asyncio's log."""
    order: list[str] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        if message.get("body"):
            order.append("chunk")
            asyncio.get_running_loop().call_soon(order.append, "turn")

    asyncio.run(_stream(Answer(), [])(STREAM_SCOPE, receive, send))  # type: ignore[arg-type]
    assert order[:6] == ["chunk", "turn"] * 3


@pytest.mark.parametrize(
    "received", [[], [(b'{"prompt": "k', True)], [(json.dumps(TINY).encode(), False)]], ids=["nothing", "a part", "all"]
)
def test_a_request_whose_client_has_gone_is_not_begun(
    folders: dict[str, Path], received: list[tuple[bytes, bool]]
) -> None:
    """received: parts of its body, each with whether there is more."""
    begun: list[Any] = []
    limits = ServerLimits()
    service = Service(ModelTable([("lm", folders["ngram"])], limits), limits)

    async def complete(body: Any) -> None:
        begun.append(body)

    service.complete = complete  # type: ignore[assignment,method-assign]
    app = build_app(service, WorkerStates(lambda: WorkerState([], []), None, 0))
    messages = iter([{"type": "http.request", "body": part, "more_body": is_more} for part, is_more in received])
    statuses: list[int] = []

    async def receive() -> Message:
        return next(messages, {"type": "http.disconnect"})

    async def send(message: Message) -> None:
        statuses.append(message.get("status", 0))

    headers = [(b"content-type", b"application/json")]
    scope = {**STREAM_SCOPE, "method": "POST", "path": "/v1/completions", "headers": headers, "query_string": b""}
    asyncio.run(app({**scope, "http_version": "1.1", "root_path": "", "scheme": "http"}, receive, send))
    assert statuses[0] == 499
    assert begun == []


def test_requests_whose_clients_leave_together_are_not_all_begun(folders: dict[str, Path]) -> None:
    """A thousand at once: all were tokenized and their prompts read before the event loop heard that they had gone."""
    begun: list[Any] = []
    limits = ServerLimits()
    service = Service(ModelTable([("lm", folders["ngram"])], limits), limits)
    all_leave = asyncio.Event()

    async def complete(body: Any) -> Any:
        begun.append(body)
        asyncio.get_running_loop().call_soon(all_leave.set)
        raise ApiError(400, "begun")

    service.complete = complete  # type: ignore[method-assign]
    app = build_app(service, WorkerStates(lambda: WorkerState([], []), None, 0))
    headers = [(b"content-type", b"application/json")]
    scope = {**STREAM_SCOPE, "method": "POST", "path": "/v1/completions", "headers": headers, "query_string": b""}
    scope |= {"http_version": "1.1", "root_path": "", "scheme": "http"}

    async def scene() -> list[int]:
        async def ask() -> int:
            messages = [{"type": "http.request", "body": json.dumps(TINY).encode(), "more_body": False}]
            statuses: list[int] = []

            async def receive() -> Message:
                if messages:
                    return messages.pop()
                await all_leave.wait()
                return {"type": "http.disconnect"}

            async def send(message: Message) -> None:
                statuses.append(message.get("status", 0))

            await app(dict(scope), receive, send)
            return statuses[0]

        return list(await asyncio.gather(*(ask() for _ in range(8))))

    statuses = asyncio.run(scene())
    assert statuses.count(400) == len(begun) <= 3
    assert statuses.count(499) == 8 - len(begun)
