"""A server on the loopback address, on a thread of the tests' process."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import httpx

from chainrule.features.serve.config import ServerLimits
from chainrule.features.serve.models import ModelTable
from chainrule.features.serve.server import bind, build_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import uvicorn


class Running(NamedTuple):
    server: uvicorn.Server
    table: ModelTable
    port: int
    client: httpx.Client

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def running(
    models: Mapping[str, Path],
    *,
    key: str | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    memory: int | None = None,
    origins: tuple[str, ...] = (),
    **limits,
) -> Iterator[Running]:
    own_limits = ServerLimits(**limits)
    table = ModelTable(list(models.items()), own_limits, memory=memory)
    listening, is_ready = bind("127.0.0.1", port), threading.Event()
    server = build_server(table, own_limits, host=host, key=key, origins=origins, on_start=is_ready.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])), daemon=True)
    thread.start()
    assert is_ready.wait(60)
    port = listening.getsockname()[1]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield Running(server, table, port, client)
    server.should_exit = True
    thread.join(60)
    listening.close()
    assert not thread.is_alive()
