"""Runs one process of a server, with uvicorn: sockets, slow senders, signals."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from chainrule.errors import ChainruleError, SettingError
from chainrule.features.serve.app import build_app
from chainrule.features.serve.bodies import ApiError
from chainrule.features.serve.guard import LOG, Guard, allowed_hosts, stopping
from chainrule.features.serve.metrics import Metrics, WorkerState, WorkerStates
from chainrule.features.serve.models import BROKEN, ModelTable
from chainrule.features.serve.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from chainrule.features.serve.config import ServerLimits

_IDLE_SECONDS = 75  # that a connection stays open between requests
_HEADER_BYTES = 1 << 16
_POLL_SECONDS = 0.05  # while running answers are waited for
_ABORT_SECONDS = 2.0  # for answers that were cut off to be sent


def build_server(
    table: ModelTable,
    limits: ServerLimits,
    *,
    host: str,
    key: str | None,
    origins: Sequence[str] = (),
    on_start: Callable[[], None] | None = None,
    folder: Path | None = None,
    number: int = 0,
) -> uvicorn.Server:
    """Return a uvicorn server for sockets that are bound to a host.

    origins: as in `Guard`. on_start: a callback, called once it accepts requests. folder, number: as in `WorkerStates`.
    """
    metrics = Metrics()

    def own_state() -> WorkerState:
        broken = [served.name for served in table.open_models() if not served.scheduler.is_alive]
        return WorkerState(broken, metrics.series(table))

    states = WorkerStates(own_state, folder, number)
    app = build_app(Service(table, limits), states)
    guard = Guard(app, key=key, origins=origins, hosts=allowed_hosts(host), limits=limits, metrics=metrics)
    config = uvicorn.Config(
        guard,
        http=_protocol_with_deadline(limits.receipt_seconds),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=1,  # for connections, once all answers have ended
        h11_max_incomplete_event_size=_HEADER_BYTES,
    )
    return _Server(config, guard, table, states, limits.stopping_seconds, on_start)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises SettingError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio turns off delays for TCP alone
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise SettingError(f"the server cannot listen on {host} port {port}: {reason}; choose another") from error
    bound.listen(2048)
    bound.set_inheritable(True)
    return bound


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        guard: Guard,
        table: ModelTable,
        states: WorkerStates,
        stopping_seconds: float,
        on_start: Callable[[], None] | None,
    ) -> None:
        super().__init__(config)
        self._guard, self._table, self._states, self._on_start = guard, table, states, on_start
        self._stopping_seconds = stopping_seconds

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self._states.shown():
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_start is not None:
            self._on_start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers end, or after some seconds end them with an error; until then, new requests get status
        503.
        """
        self._guard.is_stopping = True
        await self._until_answered(self._stopping_seconds)
        if self._guard.running and not self.force_exit:
            LOG.warning(
                "%d answers took longer than %g seconds and end now", self._guard.running, self._stopping_seconds
            )
            for served in self._table.open_models():
                served.scheduler.abort(stopping())
            await self._until_answered(_ABORT_SECONDS)
        await super().shutdown(sockets)

    async def _until_answered(self, seconds: float) -> None:
        """Wait until no request runs, at most this long; a second signal ends the wait."""
        until = time.monotonic() + seconds
        while self._guard.running and not self.force_exit and time.monotonic() < until:
            await asyncio.sleep(_POLL_SECONDS)


def _protocol_with_deadline(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which closes connections whose request does not arrive in time."""

    class Protocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._start_deadline()

        def data_received(self, data: bytes) -> None:
            if self._deadline is None:
                self._start_deadline()
            super().data_received(data)
            self._stop_deadline_if_received()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_deadline()
            super().connection_lost(exc)

        def _start_deadline(self) -> None:
            self._deadline = self.loop.call_later(seconds, self._close_late)

        @property
        def _is_receiving(self) -> bool:
            return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

        def _stop_deadline_if_received(self) -> None:
            if not self._is_receiving:
                self._stop_deadline()

        def _stop_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

        def _close_late(self) -> None:
            self._deadline = None
            if self._is_receiving:
                self.transport.abort()

    return Protocol


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The settings that all processes of a server share. models: paths by name. The others are those of `serve`."""

    models: tuple[tuple[str, Path], ...]
    host: str
    key: str | None
    origins: tuple[str, ...]
    memory: int | None
    limits: ServerLimits
    exit_on_failure: bool
    draft: str | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """A process among several.

    number: its index. folder: where each process shows its state. lifeline: a file descriptor that becomes readable
    when the process is to stop.
    """

    number: int
    folder: Path
    lifeline: int


async def run_server(
    settings: ServerSettings,
    listening: socket.socket,
    *,
    on_start: Callable[[], None] | None,
    on_event: Callable[[str, str], None],
    place: Place | None = None,
) -> None:
    """Serve until a signal comes. The default model is opened first, so that a faulty one shows at once.

    place: None if there is only one process. Raises SettingError, ModelFormatError; ChainruleError if a model's failure
    has ended the server.
    """
    table = ModelTable(settings.models, settings.limits, memory=settings.memory, draft=settings.draft)
    try:
        await table.get(None)
    except ApiError as error:
        raise error.__cause__ or SettingError(error.message) from None
    server = build_server(
        table,
        settings.limits,
        host=settings.host,
        key=settings.key,
        origins=settings.origins,
        on_start=on_start,
        folder=None if place is None else place.folder,
        number=0 if place is None else place.number,
    )
    failed: list[str] = []

    def notice(event: str, name: str) -> None:
        """Report an event, and end the server if a model is broken and the settings say so. Called on any thread."""
        if event == BROKEN and settings.exit_on_failure:
            failed.append(name)
            server.should_exit = True
        on_event(event, name)

    table.on_event = notice
    if place is not None:
        _stop_at(place.lifeline, server)
    await server.serve(sockets=[listening])
    if failed:
        raise ChainruleError(f"the model {failed[0]} {BROKEN}, which ends the server; the log says why")


def _stop_at(lifeline: int, server: uvicorn.Server) -> None:
    loop = asyncio.get_running_loop()

    def stop() -> None:
        loop.remove_reader(lifeline)
        server.should_exit = True

    loop.add_reader(lifeline, stop)
