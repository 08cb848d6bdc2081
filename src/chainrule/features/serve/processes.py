"""`serve`: runs a server until it is stopped, as one process or as several workers that share a socket.

The parent opens no model: it starts workers, replaces those that end, and stops them.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from chainrule.base.options import takes
from chainrule.base.threads import requested_threads, thread_count
from chainrule.errors import ChainruleError, ModelFormatError, SettingError, installing
from chainrule.features.serve.config import ServeOptions, ServerLimits
from chainrule.features.serve.guard import LOG
from chainrule.storage.sources import local_path

if TYPE_CHECKING:
    import os
    import socket
    from collections.abc import Callable, Iterator, Mapping

    from chainrule.features.serve.server import ServerSettings

_GRACE_SECONDS = 5.0  # after running answers were cut off, before a worker is killed


class _Worker(NamedTuple):
    number: int
    process: subprocess.Popen[bytes]
    channel: Connection


def run_workers(
    settings: ServerSettings,
    listening: socket.socket,
    count: int,
    *,
    on_start: Callable[[], None] | None,
    on_event: Callable[[str, str], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM. Raises the error with which a worker could not start."""
    if sys.platform == "win32":
        raise SettingError("workers are handed one socket, which Windows cannot do; take workers=1")
    workers: list[_Worker] = []
    with _sigterm_as_interrupt(), tempfile.TemporaryDirectory(prefix="chainrule-") as folder:
        try:
            workers.extend(_start(number, count, settings, listening, folder) for number in range(1, count + 1))
            ready: set[int] = set()
            while True:
                channels = {worker.channel: worker for worker in workers}
                for channel in wait(list(channels)):
                    worker = channels[channel]  # type: ignore[index]  # all are connections
                    kind, content = _received(worker)
                    if kind == "event":
                        on_event(*content)
                    elif kind == "ready":
                        if worker.number not in ready and len(ready | {worker.number}) == count and on_start:
                            on_start()
                        ready.add(worker.number)
                    elif kind == "error":
                        raise content
                    elif worker.number not in ready:
                        raise ChainruleError(f"worker {worker.number} ended before it could answer, with {content}")
                    else:
                        LOG.error("worker %d ended with %s; another one takes its place", worker.number, content)
                        ready.discard(worker.number)
                        workers.remove(worker)
                        workers.append(_start(worker.number, count, settings, listening, folder))
        finally:
            _stop(workers, settings.limits.stopping_seconds + _GRACE_SECONDS)


def _start(number: int, count: int, settings: ServerSettings, listening: socket.socket, folder: str) -> _Worker:
    channel, other_end = Pipe()
    descriptors = listening.fileno(), other_end.fileno()
    command = [sys.executable, "-m", "chainrule.features.serve.worker", *map(str, descriptors)]
    with other_end:
        process = subprocess.Popen(command, pass_fds=descriptors)
    threads = threads_of_each(count)
    channel.send((settings, listening.family, number, threads, Path(folder), LOG.isEnabledFor(logging.INFO)))
    return _Worker(number, process, channel)


def threads_of_each(count: int) -> int:
    """Return how many threads each of several workers uses: the requested number, or its share of the processors."""
    return requested_threads() or max(1, thread_count() // count)


def _received(worker: _Worker) -> tuple[str, Any]:
    """Return a worker's message: ready, event, error; or how the worker ended."""
    try:
        kind, content = worker.channel.recv()
        return kind, content
    except (EOFError, ConnectionResetError):
        status = worker.process.wait()
        worker.channel.close()
        return "ended", f"signal {-status}" if status < 0 else f"status {status}"


def _stop(workers: list[_Worker], seconds: float) -> None:
    """Stop the workers by closing their channels: then they let running answers end."""
    for worker in workers:
        worker.channel.close()
    for worker in workers:
        try:
            worker.process.wait(seconds)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt inside, and end the process afterwards, as it would have done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if came:
            signal.raise_signal(signal.SIGTERM)


@takes(ServeOptions)
def serve(models: Mapping[str, str | os.PathLike[str]], options: ServeOptions) -> None:
    """Serve models over HTTP, with OpenAI's interface, until Ctrl-C. Running answers then end.

    models: paths by name; the first is the default. The options are those of `ServeOptions`.
    Raises SettingError, ModelFormatError; ChainruleError if a model's failure has ended the server.

    good:  chainrule.serve({"lm": "lm/"}, port=8000)
    """
    try:
        from chainrule.features.serve.guard import is_loopback
        from chainrule.features.serve.server import ServerSettings, bind, run_server
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "uvicorn", "starlette", "h11", "orjson"):
            raise
        raise SettingError(f"serving needs FastAPI and uvicorn: {installing('serve')}") from None
    if not models:
        raise SettingError("no model is given to serve; give one")
    host, on_start, on_event = options.host, options.on_start, options.on_event
    if options.key is None and not options.open_to_all and not is_loopback(host):
        raise SettingError(f"host is {host!r}, which other machines can reach; give a key, or set open_to_all")
    paths = tuple((name, local_path(path, is_whole=True)) for name, path in models.items())
    for _, path in paths:
        if not path.exists():
            raise ModelFormatError(f"{path}: there is no such folder or file; expected a model")
    settings = ServerSettings(
        models=paths,
        host=host,
        key=options.key,
        origins=options.origins,
        memory=options.memory,
        limits=options.limits or ServerLimits(),
        exit_on_failure=options.exit_on_failure,
        draft=options.draft,
    )
    with bind(host, options.port) as listening:
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{listening.getsockname()[1]}"
        report = None if on_start is None else lambda: on_start(address)
        with suppress(KeyboardInterrupt):  # uvicorn has let running answers end, and raises it again
            if options.workers == 1:
                asyncio.run(run_server(settings, listening, on_start=report, on_event=on_event))
            else:
                run_workers(settings, listening, options.workers, on_start=report, on_event=on_event)
