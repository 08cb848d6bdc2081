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
    from collections.abc import Callable, Mapping

MAX_WORKERS = 256


def serve(
    models: Mapping[str, str | os.PathLike[str]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    key: str | None = None,
    open_to_all: bool = False,
    workers: int = 1,
    memory: int | None = None,
    exit_on_failure: bool = False,
    limits: ServerLimits | None = None,
    on_start: Callable[[str], None] | None = None,
    on_event: Callable[[str, str], None] = lambda event, name: None,
) -> None:
    """Serves models over HTTP, with OpenAI's interface, until Ctrl-C. Running answers then end.

    models: paths by name; the first is the default. key: what every request must have. open_to_all: whether other
    machines may ask without a key. workers: processes that answer; each has limits and models of its own, but mapped
    files, such as those of n-gram models, are in memory once. memory: bytes that the files of all open models of a
    process may have; by default, any number. exit_on_failure: whether a model that fails several times in a row ends
    the server; by default, the next request opens it again. on_start: called with the server's address once it answers.
    on_event: called with what happened to which model. Raises SettingError, ModelFormatError; ChainruleError if a
    model's failure has ended the server.

    good:  chainrule.serve({"lm": "lm/"}, port=8000)
    """
    try:
        from chainrule.serving.guard import is_loopback
        from chainrule.serving.run_server import ServerSettings, run_server
        from chainrule.serving.server import bind
        from chainrule.serving.workers import run_workers
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "h11", "orjson"):
            raise
        raise SettingError("serving needs FastAPI and uvicorn: pip install 'chainrule[serve]'") from None
    if not models:
        raise SettingError("there is no model to serve; give one")
    if not 1 <= workers <= MAX_WORKERS:
        raise SettingError(f"workers is {workers}; expected 1 to {MAX_WORKERS}")
    if key is None and not open_to_all and not is_loopback(host):
        raise SettingError(f"host is {host!r}, which lets other machines in; give a key, or set open_to_all")
    paths = tuple((name, Path(path)) for name, path in models.items())
    for _, path in paths:
        if not path.exists():
            raise ModelFormatError(f"{path}: there is no such folder or file; expected a model")
    settings = ServerSettings(
        models=paths,
        host=host,
        key=key,
        memory=memory,
        limits=limits or ServerLimits(),
        exit_on_failure=exit_on_failure,
    )
    with bind(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}"
        report = None if on_start is None else lambda: on_start(address)
        with suppress(KeyboardInterrupt):  # uvicorn has let running answers end, and raises it again
            if workers == 1:
                asyncio.run(run_server(settings, listening, on_start=report, on_event=on_event))
            else:
                run_workers(settings, listening, workers, on_start=report, on_event=on_event)
