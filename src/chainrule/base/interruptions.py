"""Ctrl-C where work must not be cut in two."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def interruptions() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that a step is never cut in two; a second Ctrl-C ends at once."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def noticed(number: int, frame: object) -> None:
        interrupted.set()
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, noticed)
    try:
        yield interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
