"""Runs one process of a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from chainrule.errors import ChainruleError, SettingError
from chainrule.serving.api_error import ApiError
from chainrule.serving.model_table import BROKEN, ModelTable
from chainrule.serving.server import build_server

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    import uvicorn

    from chainrule.serving.limits import ServerLimits


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """What all processes of a server share. models: names and paths. The rest is as in `serve`."""

    models: tuple[tuple[str, Path], ...]
    host: str
    key: str | None
    memory: int | None
    limits: ServerLimits
    exit_on_failure: bool


@dataclass(frozen=True, kw_only=True)
class Place:
    """A process among several.

    number: its own. folder: where each shows its state. lifeline: a file descriptor that is ready to be read once the
    process shall stop.
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
    """Serves until a signal comes. The default model is opened first, so that a faulty one shows at once.

    place: None if there is only one process. Raises SettingError, ModelFormatError; ChainruleError if a model's failure
    has ended the server.
    """
    table = ModelTable(settings.models, settings.limits, memory=settings.memory)
    try:
        await table.get(None)
    except ApiError as error:
        raise error.__cause__ or SettingError(error.message) from None
    server = build_server(
        table,
        settings.limits,
        host=settings.host,
        key=settings.key,
        on_start=on_start,
        folder=None if place is None else place.folder,
        number=0 if place is None else place.number,
    )
    failed: list[str] = []

    def notice(event: str, name: str) -> None:
        """Called on any thread."""
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
