"""Carried states as flat lists of tensors, batch first: for checkpoints, and for steps split into parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor


def leaves(state: Any) -> list[Tensor]:
    """The tensors of a state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    return [leaf for branch in state or () for leaf in leaves(branch)]


def with_leaves(state: Any, tensors: list[Tensor]) -> Any:
    """A state of the same structure with other tensors, which are popped off the list."""
    if isinstance(state, torch.Tensor):
        return tensors.pop(0)
    return None if state is None else tuple(with_leaves(branch, tensors) for branch in state)


def in_float32(state: Any) -> Any:
    """The same state in float32, since neither files nor all-gathers support bfloat16.

    Nothing is rounded, so a resumed run carries the same numbers as one that was never interrupted.
    """
    return with_leaves(state, [leaf.float() for leaf in leaves(state)])


def with_rows_of(state: Any, other: Any, rows: Tensor) -> Any:
    """A state with some rows of another of the same structure. rows: (B,), True where `other` is used."""
    pairs = zip(leaves(state), leaves(other), strict=True)
    return with_leaves(state, [torch.where(rows.view(-1, *[1] * (own.ndim - 1)), others, own) for own, others in pairs])


def join_rows(states: list[Any]) -> Any:
    """One state with the rows of several."""
    rows = [torch.cat(parts) for parts in zip(*map(leaves, states), strict=True)]
    return with_leaves(states[0], rows)


def split_rows(like: Any, tensors: list[Tensor], parts: int) -> list[Any]:
    """`parts` states of equally many rows, structured like `like`, that together hold these tensors."""
    chunks = [tensor.chunk(parts) for tensor in tensors]
    return [with_leaves(like, [chunk[part] for chunk in chunks]) for part in range(parts)]
