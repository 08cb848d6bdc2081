"""What an encoder remembers of the rows that it has read: a plain tree of tensors, batch first.

A leaf may also be a memory that knows by itself how to take rows without copying all it holds, as a cache does.
"""

from __future__ import annotations

from typing import Protocol, Self, TypeVar, cast

from torch import Tensor


class Memory(Protocol):
    """A leaf of a state that is more than one tensor. What is taken from it leaves it as it was."""

    def select(self, rows: Tensor) -> Self:
        """Copies, repeats or drops rows. rows: int64, (new rows,)."""

    def detach(self) -> Self:
        """The same numbers, which no gradient flows through."""


State = Tensor | Memory | tuple["State", ...] | None
S = TypeVar("S", bound=State)


def select(state: S, rows: Tensor) -> S:
    """Copies, repeats or drops rows; the given state stays usable. rows: int64, (new rows,)."""
    if isinstance(state, tuple):
        return cast("S", tuple(select(each, rows) for each in state))
    if isinstance(state, Tensor):
        return cast("S", state.index_select(0, rows))
    return state if state is None else cast("S", state.select(rows))


def detach(state: S) -> S:
    """The same numbers, which no gradient flows through: for training that goes on in a stream."""
    if isinstance(state, tuple):
        return cast("S", tuple(detach(each) for each in state))
    return state if state is None else cast("S", state.detach())
