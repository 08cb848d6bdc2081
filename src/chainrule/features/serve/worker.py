"""python -m chainrule.features.serve.worker SOCKET CHANNEL: one of several processes of a server.

`processes.py` starts it.

SOCKET, CHANNEL: file descriptors. The channel brings what to serve; it takes news; when it closes, the worker stops.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from chainrule.base.threads import set_threads
from chainrule.errors import ChainruleError
from chainrule.features.serve.guard import log_to_stderr
from chainrule.features.serve.server import Place, run_server


def main() -> None:
    descriptor, channel = int(sys.argv[1]), Connection(int(sys.argv[2]))
    settings, family, number, threads, folder, logs_requests = channel.recv()
    log_to_stderr(requests=logs_requests)
    set_threads(threads)

    sending = threading.Lock()

    def send(kind: str, content: object) -> None:
        with sending, suppress(OSError):  # if the parent has gone, this process stops, too
            channel.send((kind, content))

    with (
        socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=descriptor) as listening,
        suppress(KeyboardInterrupt),
    ):
        running = run_server(
            settings,
            listening,
            on_start=lambda: send("ready", None),
            on_event=lambda event, name: send("event", (event, name)),
            place=Place(number=number, folder=folder, lifeline=channel.fileno()),
        )
        try:
            asyncio.run(running)
        except (ChainruleError, OSError) as error:
            send("error", error)


if __name__ == "__main__":
    main()
