"""The state of an encoder after the rows that it has read: a tree of tensors, batch first.

A leaf may also be a `Memory`, which can select rows without copying everything it holds, as a cache does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Int64


class Memory(Protocol):
    """A leaf of a state that is more than one tensor. Its methods leave it unchanged."""

    def select(self, rows: Int64[Tensor, " new_rows"]) -> Self:
        """Copies, repeats or drops rows."""

    @classmethod
    def join(cls, memories: Sequence[Self]) -> Self:
        """The rows of one memory after the other."""

    def detach(self) -> Self:
        """The same values without gradients."""


State = Tensor | Memory | tuple["State", ...] | None
S = TypeVar("S", bound=State)


def select(state: S, rows: Int64[Tensor, " new_rows"]) -> S:
    """Copies, repeats or drops rows; the given state stays usable."""
    if isinstance(state, tuple):
        return cast("S", tuple(select(part, rows) for part in state))
    if isinstance(state, Tensor):
        return cast("S", state.index_select(0, rows))
    return state if state is None else cast("S", state.select(rows))


def join(states: Sequence[S]) -> S:
    """The rows of one state after the other; the given states stay usable."""
    first = states[0]
    if isinstance(first, tuple):
        return cast("S", tuple(join(parts) for parts in zip(*cast("Sequence[tuple[State, ...]]", states), strict=True)))
    if isinstance(first, Tensor):
        return cast("S", torch.cat(cast("list[Tensor]", list(states))))
    return first if first is None else cast("S", type(first).join(cast("Sequence[Any]", states)))


def detach(state: S) -> S:
    """The same values without gradients, for training that continues in a stream."""
    if isinstance(state, tuple):
        return cast("S", tuple(detach(part) for part in state))
    return state if state is None else cast("S", state.detach())
