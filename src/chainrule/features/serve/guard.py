"""What every request passes before a route sees it: host, origin, key, size, and the limit of concurrent requests.

A plain ASGI layer, so that it covers every route, and nothing of a refused body is read. Also what a server writes to
standard error: warnings, errors and, if asked for, a line for each request.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from h11 import LocalProtocolError

from chainrule.features.serve.bodies import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping, Sequence

    from chainrule.features.serve.config import ServerLimits
    from chainrule.features.serve.metrics import Metrics

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("chainrule.features.serve")


def log_to_stderr(*, requests: bool) -> None:
    """Log to standard error. requests: whether each request is logged: its route, status and time, never its text."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # it warns of every request that is no HTTP
    LOG.setLevel(logging.INFO if requests else logging.WARNING)


_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_OPEN_ROUTES = {"/health", "/", "/explore"}  # without a key
_OPEN_FILES = "/explore/"  # the page's own files, which hold no secret
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.~!$&'()*+,;=%-]*)(:\d{0,5})?", re.ASCII)  # RFC 9110, 7.2


class Guard:
    """Wraps an application. key: None lets everybody in. hosts: names that the Host header may have; None for any.

    origins: of pages that may ask although they come from elsewhere; * stands for all.
    """

    def __init__(
        self,
        app: App,
        *,
        key: str | None,
        origins: Sequence[str] = (),
        hosts: set[str] | None,
        limits: ServerLimits,
        metrics: Metrics,
    ) -> None:
        self._app, self._hosts, self._limits, self._metrics = app, hosts, limits, metrics
        self._origins = frozenset(origins)
        self._key = None if key is None else key.encode()
        self.is_stopping = False

    @property
    def running(self) -> int:
        """Requests that are being answered."""
        return self._metrics.running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request_id = time.perf_counter(), uuid.uuid4().hex
        scope["request_id"] = request_id
        headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        shared = _shared_with(origin, headers) if self._is_allowed(origin) else []
        status = 0

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = [(b"x-request-id", request_id.encode()), *shared]
                message["headers"] = [*message.get("headers", []), *own]
            try:
                await send(message)
            except LocalProtocolError:  # the client has broken the protocol, and uvicorn has answered that
                LOG.info("request %s: the connection is broken", request_id)

        self._metrics.running += 1
        try:
            self._check_host(headers, scope["http_version"])
            if shared and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await send_noting({"type": "http.response.start", "status": 204, "headers": []})
                await send_noting({"type": "http.response.body"})
                return
            self._check(scope, headers)
            await self._app(scope, _Limited(receive, self._limits), send_noting)
        except ApiError as error:
            if not status:
                await _send_error(error, send_noting)
        except asyncio.CancelledError:
            if not self.is_stopping:
                raise
            if not status:
                await _send_error(stopping(), send_noting)
        except Exception:
            LOG.exception("request %s failed", request_id)
            if not status:
                await _send_error(ApiError(500, f"the server failed; its log names request {request_id}"), send_noting)
        finally:
            self._metrics.running -= 1
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.count(route, status, seconds)
            LOG.info("%s %s %d %.1f ms %s", scope["method"], route, status, 1000 * seconds, request_id)

    def _is_allowed(self, origin: bytes | None) -> bool:
        return origin is not None and ("*" in self._origins or origin.decode("latin-1") in self._origins)

    def _check_host(self, headers: dict[bytes, bytes], version: str) -> None:
        """Raise ApiError if the Host or the origin of a request is not allowed."""
        _check_framing(headers, version)
        host = headers.get(b"host", b"").decode("latin-1")
        if not _HOST.fullmatch(host):
            message = "the Host header is not a name with perhaps a port; send one such as localhost:8000"
            raise ApiError(400, message, code="invalid_host")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise ApiError(403, "the Host header does not name this server", code="wrong_host")
        origin = headers.get(b"origin")
        if origin is not None and _host_of(origin.decode("latin-1")) != host and not self._is_allowed(origin):
            message = "requests from pages of other origins are refused; serve --allow-origin lets one in"
            raise ApiError(403, message, code="wrong_origin")

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise ApiError if a request must not be answered."""
        if scope["path"] not in _OPEN_ROUTES and not scope["path"].startswith(_OPEN_FILES):
            self._check_key(headers)
        if self.is_stopping:
            raise stopping()
        if self._metrics.running > self._limits.requests:
            raise ApiError(429, "too many requests at once; try again later", code="overloaded", retry_after=1)
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._limits.body_bytes:
            raise _too_large(self._limits)
        if scope["method"] == "POST":
            kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
            if kind != b"application/json":
                message = "expected a body of JSON; send the header Content-Type: application/json"
                raise ApiError(415, message, code="wrong_type")

    def _check_key(self, headers: dict[bytes, bytes]) -> None:
        if self._key is None:
            return
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() != b"bearer" or not given:
            given = headers.get(b"x-api-key", b"")
        if not hmac.compare_digest(given.strip(), self._key):
            raise ApiError(401, "expected the server's key, as Authorization: Bearer KEY", code="invalid_api_key")


class _Limited:
    """Receives a body up to a size."""

    def __init__(self, receive: Receive, limits: ServerLimits) -> None:
        self._receive, self._limits, self._size = receive, limits, 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._size += len(message.get("body", b""))
            if self._size > self._limits.body_bytes:
                raise _too_large(self._limits)
        return message


def stopping() -> ApiError:
    """Return the error that requests get while the server stops."""
    return ApiError(503, "the server is stopping", code="stopping", retry_after=5)


def _too_large(limits: ServerLimits) -> ApiError:
    return ApiError(413, f"the body has more than {limits.body_bytes:,} bytes; send less at a time", code="too_large")


def _check_framing(headers: dict[bytes, bytes], version: str) -> None:
    """Raise ApiError, which closes the connection, if others may see the request's end elsewhere: RFC 9112, 6.1."""
    if b"transfer-encoding" in headers and (b"content-length" in headers or version != "1.1"):
        beside = "Content-Length" if b"content-length" in headers else f"HTTP {version}"
        message = f"Transfer-Encoding with {beside} leaves open where the request ends; send Content-Length alone"
        raise ApiError(400, message, code="invalid_framing", closes=True)


def _shared_with(origin: bytes | None, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
    """Return the headers that let a page of another origin read an answer, or ask, where a browser asks whether
    it may.
    """
    assert origin is not None
    shared = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", b"x-request-id, x-ignored, retry-after"),
        (b"vary", b"Origin"),
    ]
    if b"access-control-request-method" in headers:
        shared += [
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", headers.get(b"access-control-request-headers", b"")),
            (b"access-control-max-age", b"600"),
        ]
    if b"access-control-request-private-network" in headers:
        shared.append((b"access-control-allow-private-network", b"true"))
    return shared


def _host_of(origin: str) -> str | None:
    """Return the host and port of an origin; None if it has none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _host_name(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def allowed_hosts(bind: str) -> set[str] | None:
    """Return the names that requests may use for a server: of loopback addresses, only these; of others, any."""
    return set(_LOOPBACK) if is_loopback(bind) else None


def is_loopback(bind: str) -> bool:
    return bind in _LOOPBACK or bind.startswith("127.")


async def _send_error(error: ApiError, send: Send) -> None:
    headers = {"content-type": "application/json", **error.headers()}
    start = {
        "type": "http.response.start",
        "status": error.status,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await send(start)
    await send({"type": "http.response.body", "body": json.dumps(error.body()).encode()})
