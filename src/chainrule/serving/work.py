"""What a scheduler does for requests: texts that grow, prompts to score, and functions to call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Float32, Int32
    from numpy import ndarray

    from chainrule.decoding.sampling import Row
    from chainrule.serving.ticket import Ticket

    Tokens = Int32[ndarray, " T"]
    Top = tuple[Float32[ndarray, " k"], Int32[ndarray, " k"]]


class TokenSink(Protocol):
    """What gets the tokens of a row, on the scheduler's thread."""

    def add(self, token: int, log_prob: float, top: Top | None) -> bool:
        """Adds a token; whether somebody waits for it already."""


@dataclass(eq=False)
class Generation:
    """Texts that grow from one prompt.

    prompt: ids. is_exact: whether they are read exactly as they are, as a chat template writes them; if not, they begin
    a text. rows, sinks: one for each text.
    """

    ticket: Ticket
    prompt: Tokens
    rows: list[Row]
    sinks: Sequence[TokenSink]
    is_exact: bool = False
    state: Any = None  # after the part of the prompt that was read
    read: int = 0  # tokens of the prompt, or of its window
    window: Tokens | None = None  # what is read exactly in place of the prompt, where that is longer than the context

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

    ticket: Ticket
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
    """A function that needs the model, such as embedding."""

    ticket: Ticket
    function: Callable[[], Any]
    result: Any = None
    cost: int = 1
