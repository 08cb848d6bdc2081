"""`serve`: runs a server until it is stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from chainrule.errors import ModelFormatError, SettingError
from chainrule.serving.limits import ServerLimits

if TYPE_CHECKING:
    import os
    import socket
    from collections.abc import Callable, Mapping

    import uvicorn

    from chainrule.serving.model_table import ModelTable


def serve(
    models: Mapping[str, str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    key: str | None = None,
    open_to_all: bool = False,
    memory: int | None = None,
    limits: ServerLimits | None = None,
    on_start: Callable[[str], None] | None = None,
    on_event: Callable[[str, str], None] = lambda event, name: None,
) -> None:
    """Serves models over HTTP, with OpenAI's interface, until Ctrl-C. Running answers then end.

    models: paths by name; the first is the default. key: what every request must have. open_to_all: whether other
    machines may ask without a key. memory: bytes that the files of all open models may have; by default, any number.
    on_start: called with the server's address once it answers. on_event: called with what happened to which model.
    Raises SettingError, ModelFormatError.

    good:  chainrule.serve({"lm": "lm/"}, port=8000)
    """
    try:
        from chainrule.serving.guard import is_loopback
        from chainrule.serving.model_table import ModelTable
        from chainrule.serving.server import bind, build_server
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "h11"):
            raise
        raise SettingError("serving needs FastAPI and uvicorn: pip install 'chainrule[serve]'") from None
    if not models:
        raise SettingError("there is no model to serve; give one")
    if key is None and not open_to_all and not is_loopback(host):
        raise SettingError(f"host is {host!r}, which lets other machines in; give a key, or set open_to_all")
    limits = limits or ServerLimits()
    paths = [(name, Path(path)) for name, path in models.items()]
    for _, path in paths:
        if not path.exists():
            raise ModelFormatError(f"{path}: there is no such folder or file; expected a model")
    table = ModelTable(paths, limits, memory=memory)
    with bind(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}"
        report = None if on_start is None else lambda: on_start(address)
        server = build_server(table, limits, host=host, key=key, on_start=report)
        with suppress(KeyboardInterrupt):  # uvicorn has let running answers end, and raises it again
            asyncio.run(_run(server, table, listening, on_event))


async def _run(
    server: uvicorn.Server, table: ModelTable, listening: socket.socket, on_event: Callable[[str, str], None]
) -> None:
    """The default model is opened first, so that a faulty one shows at once. Raises SettingError, ModelFormatError."""
    from chainrule.serving.api_error import ApiError

    try:
        await table.get(None)
    except ApiError as error:
        raise error.__cause__ or SettingError(error.message) from None
    table.on_event = on_event
    await server.serve(sockets=[listening])
