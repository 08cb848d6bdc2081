"""What a request holds while a scheduler works for it: how much is open, and a way to be woken."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ticket:
    """Made and awaited on the event loop; the scheduler's thread counts down and wakes it.

    error: why the request failed. is_cancelled: whether nobody waits for it any more.
    """

    def __init__(self, parts: int) -> None:
        """parts: how many pieces of work the request consists of."""
        self.open_parts = parts
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    @property
    def is_done(self) -> bool:
        return self.error is not None or self.open_parts <= 0

    async def wait(self) -> None:
        """Waits until something is new, or all is done. Raises the request's error."""
        if not self.is_done:
            await self._event.wait()
            self._event.clear()
        if self.error is not None:
            raise self.error

    async def wait_until_done(self) -> None:
        """Waits for all parts. Raises the request's error."""
        while not self.is_done:
            await self.wait()
        if self.error is not None:
            raise self.error

    def wake(self) -> None:
        self._event.set()


def wake_all(tickets: Iterable[Ticket]) -> None:
    """Wakes tickets from another thread; those of a loop together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, some in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_wake, some)


def _wake(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        ticket.wake()
