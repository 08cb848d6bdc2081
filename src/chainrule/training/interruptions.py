"""Ctrl-C and SIGTERM while a network is trained: noted, so that no step is cut in two."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interruption:
    """Which signal asked for an end; 0: none has."""

    signal = 0


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Notes the first Ctrl-C or SIGTERM; a second one ends the process at once. Other threads note none."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def note(number: int, frame: object) -> None:
        interruption.signal = number
        restore()

    for number in before:
        signal.signal(number, note)
    try:
        yield interruption
    finally:
        restore()
