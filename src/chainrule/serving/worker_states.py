"""What the processes of a server report of themselves, so that each can answer for all."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

_PATIENCE_SECONDS = 1.0  # with another process


class WorkerState(NamedTuple):
    """broken: names of models whose threads have failed. series: what has happened, as `Metrics.series` gives it."""

    broken: list[str]
    series: dict[str, float]


class WorkerStates:
    """The states of all processes of a server: its own, and those of others, each at a socket in a private folder."""

    def __init__(self, own: Callable[[], WorkerState], folder: Path | None = None, number: int = 0) -> None:
        """folder: where the sockets are; None if there is one process. number: of this process."""
        self._own, self._folder, self._number = own, folder, str(number)

    async def all(self) -> list[WorkerState]:
        """The states of all that answer, its own first."""
        if self._folder is None:
            return [self._own()]
        others = [self._ask(path) for path in sorted(self._folder.iterdir()) if path.name != self._number]
        return [self._own(), *(state for state in await asyncio.gather(*others) if state is not None)]

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Answers the others meanwhile."""
        if self._folder is None:
            yield
            return
        async with await asyncio.start_unix_server(self._answer, self._folder / self._number):
            yield

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(self._own()).encode())
        writer.close()

    @staticmethod
    async def _ask(path: Path) -> WorkerState | None:
        """None if the process has ended or hangs."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_unix_connection(path)
                try:
                    return WorkerState(*json.loads(await reader.read()))
                finally:
                    writer.close()
        except (OSError, ValueError):  # TimeoutError is an OSError
            return None
