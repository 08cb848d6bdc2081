"""Defers Ctrl-C and SIGTERM during training to the end of a step."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interruption:
    """The signal that asked the run to stop; 0: none."""

    signal = 0


@contextmanager
def interruptions() -> Iterator[Interruption]:
    """Notes the first Ctrl-C or SIGTERM; a second one ends the process at once. Works in the main thread only."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before = {signal_number: signal.getsignal(signal_number) for signal_number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)

    def note(signal_number: int, frame: object) -> None:
        interruption.signal = signal_number
        restore()

    for signal_number in before:
        signal.signal(signal_number, note)
    try:
        yield interruption
    finally:
        restore()
