"""Activation checkpointing: the backward pass computes a block's activations again, so that they need no memory.

Chen et al., Training deep nets with sublinear memory cost (2016). Only the inputs of blocks stay in memory; a step
takes about a third more operations. Dropout draws the same numbers again, so results do not change.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn


def recompute_activations(blocks: Iterable[nn.Module]) -> None:
    """From now on, blocks keep only their inputs for the backward pass."""
    for block in blocks:
        forward: Any = partial(checkpoint, block.forward, use_reentrant=False)
        block.forward = forward


def keep_activations(blocks: Iterable[nn.Module]) -> None:
    """Undoes `recompute_activations`."""
    for block in blocks:
        del block.forward
