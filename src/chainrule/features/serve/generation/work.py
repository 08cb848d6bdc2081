"""What a scheduler does for requests: texts that grow, prompts to score, functions to call; and the requests that wait.

A PendingRequest counts the work of a request that is still open, and wakes the request when there is news.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.sampling import Row

    Tokens = Int32[ndarray, " T"]
    Top = tuple[Float32[ndarray, " k"], Int32[ndarray, " k"]]


class TokenSink(Protocol):
    """Receives the tokens of a row, on the scheduler's thread."""

    def add(self, token: int, log_prob: float, top: Top | None) -> bool:
        """Add a token; return whether somebody waits for it already."""


@dataclass(eq=False)
class Generation:
    """Texts that grow from one prompt.

    prompt: its ids. is_exact: whether they are read unchanged, as a chat template writes them; if not, they begin a
    text. rows, sinks: one for each text.
    """

    ticket: PendingRequest
    prompt: Tokens
    rows: list[Row]
    sinks: Sequence[TokenSink]
    is_exact: bool = False
    state: Any = None  # after the part of the prompt that was read
    read: int = 0  # tokens of the prompt, or of its window
    window: Tokens | None = None  # read exactly, in place of a prompt that is longer than the context

    @property
    def to_read(self) -> Tokens:
        """All tokens that the model reads before the texts grow."""
        return self.prompt if self.window is None else self.window

    @property
    def cost(self) -> int:
        """The most tokens that it holds."""
        return sum(len(self.prompt) + row.constraints.max_tokens for row in self.rows)


@dataclass(eq=False)
class Scoring:
    """Sequences to score. top: how many of the likeliest tokens at each position are wanted, too."""

    ticket: PendingRequest
    sequences: list[Tokens]
    top: int = 0
    log_probs: list[Float32[ndarray, " T"]] = field(default_factory=list)
    tops: list[tuple[Float32[ndarray, "T k"], Int32[ndarray, "T k"]]] = field(default_factory=list)
    is_done: bool = False

    @property
    def cost(self) -> int:
        return sum(map(len, self.sequences))


@dataclass(eq=False)
class Call:
    """A function that needs the model, such as embedding. is_long: whether it is called in slices."""

    ticket: PendingRequest
    function: Callable[[], Any]
    is_long: bool = False
    result: Any = None
    cost: int = 1


class PendingRequest:
    """A request, made and awaited on the event loop; the scheduler's thread counts its open parts down and wakes it.

    error: why the request failed. is_cancelled: whether nobody waits for it any more.
    """

    def __init__(self, parts: int) -> None:
        """Start with all parts open. parts: how many parts of work the request consists of."""
        self.open_parts = parts
        self.error: BaseException | None = None
        self.is_cancelled = False
        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    @property
    def is_done(self) -> bool:
        return self.error is not None or self.open_parts <= 0

    async def wait(self) -> None:
        """Wait until there is something new, or all is done. Raises the request's error."""
        if not self.is_done:
            await self._event.wait()
            self._event.clear()
        if self.error is not None:
            raise self.error

    async def wait_until_done(self) -> None:
        """Wait for all parts. Raises the request's error."""
        while not self.is_done:
            await self.wait()
        if self.error is not None:
            raise self.error

    def wake(self) -> None:
        self._event.set()


def wake_all(tickets: Iterable[PendingRequest]) -> None:
    """Wake requests from another thread; those of one event loop together."""
    by_loop: dict[asyncio.AbstractEventLoop, list[PendingRequest]] = {}
    for ticket in tickets:
        by_loop.setdefault(ticket.loop, []).append(ticket)
    for loop, some in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_wake, some)


def _wake(tickets: list[PendingRequest]) -> None:
    for ticket in tickets:
        ticket.wake()
