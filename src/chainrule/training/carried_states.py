"""Carried states as flat lists of tensors, batch first: for checkpoints, and for steps gone through in parts."""

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
    """A state of the same form with other tensors, which are taken off the list."""
    if isinstance(state, torch.Tensor):
        return tensors.pop(0)
    return None if state is None else tuple(with_leaves(branch, tensors) for branch in state)


def in_float32(state: Any) -> Any:
    """The same numbers in float32, whatever the matrix products gave: files and all-gathers know no bfloat16.

    Nothing is rounded, so a run that goes on from a file carries the same numbers as one that never ended.
    """
    return with_leaves(state, [leaf.float() for leaf in leaves(state)])


def with_rows_of(state: Any, other: Any, rows: Tensor) -> Any:
    """A state with some of its rows from another of the same form. rows: (B,), True for those."""
    pairs = zip(leaves(state), leaves(other), strict=True)
    return with_leaves(state, [torch.where(rows.view(-1, *[1] * (one.ndim - 1)), two, one) for one, two in pairs])


def joined(states: list[Any]) -> Any:
    """One state of the rows of several."""
    rows = [torch.cat(parts) for parts in zip(*map(leaves, states), strict=True)]
    return with_leaves(states[0], rows)


def parted(like: Any, tensors: list[Tensor], parts: int) -> list[Any]:
    """The states of as many rows each, of the form of `like`, that together have these tensors."""
    chunks = [tensor.chunk(parts) for tensor in tensors]
    return [with_leaves(like, [chunk[part] for chunk in chunks]) for part in range(parts)]
