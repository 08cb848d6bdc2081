"""Which keys each query attends to: all, those before it, those in a window, of its document, or in a cache.

A mask also carries what else attention is told: what to score by, what to record, and what to change.
Legend: B batch, H heads, T queries, S keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jaxtyping import Bool, Float, Int64

    Part = Literal["heads", "attention", "feed-forward"]
    # What a part of a layer, counted from 0, computed, and what is read on with in its place: of heads (B, T, H, d),
    # before their outputs are mixed; otherwise (B, T, D), what is added to the residual stream.
    Edit = Callable[[Part, int, Tensor], Tensor]
    Bias = Callable[[Int64[Tensor, "T S"]], Float[Tensor, "H T S"]]  # of the distance from each key to each query


class Step(NamedTuple):
    """What a query attends to that attends alone: the keys from begin to end, with a mask over them."""

    begin: int
    end: int
    mask: AttentionMask


class AttentionMask(NamedTuple):
    """Which keys each query attends to.

    tensor: (B or 1, H or 1, T, S), added to the scores, or True where a query attends to a key; None if all queries
    attend to all keys. causal: whether query i attends to keys 0 to i only; `tensor` is then None.
    block_length: `tensor` is the mask of one block of queries, over the keys of the block before and its own,
    (1, H or 1, block, 2 block); see `attend_in_blocks`.
    weights_out: a list to which attention appends its weights, (B, H, T, S).
    starts: (B, T), where rows begin anew, for what carries a state from token to token; None for nowhere.
    edit: a function through which the outputs of heads and layers go. beside: what else the blocks of a subclass read.
    steps: of each query, where each attends alone; `tensor`, `causal` and
    `block_length` then do not count. texts: of the texts that a row is made of, one after the other, the
    lengths and masks; no query attends to another text, and the other masks do not count.
    """

    tensor: Tensor | None = None
    causal: bool = False
    block_length: int | None = None
    weights_out: list[Tensor] | None = None
    starts: Tensor | None = None
    edit: Edit | None = None
    beside: Any = None
    steps: Sequence[Step] | None = None
    texts: Sequence[tuple[int, AttentionMask]] | None = None

    def share(self, rows: slice) -> AttentionMask:
        """Return the mask of some rows, for what neither records nor edits."""
        tensor = self.tensor if self.tensor is None or self.tensor.shape[0] == 1 else self.tensor[rows]
        return self._replace(tensor=tensor, starts=None if self.starts is None else self.starts[rows])

    def in_type(self, dtype: torch.dtype) -> AttentionMask:
        """Return the mask for queries and keys of a type: what is added to scores has it."""
        tensor = self.tensor
        if tensor is not None and tensor.is_floating_point():
            tensor = tensor.to(dtype)
        texts = self.texts and [(length, mask.in_type(dtype)) for length, mask in self.texts]
        return self._replace(tensor=tensor, texts=texts)

    def edited(self, part: Part, layer: int, x: Tensor) -> Tensor:
        """Return what a part of a layer computed, through `edit`."""
        return x if self.edit is None else self.edit(part, layer, x)


def causal_mask(
    length: int,
    device: torch.device,
    *,
    window: int | None,
    bias: Bias | None,
    documents: Int64[Tensor, "B T"] | None,
    in_blocks: bool = True,
) -> AttentionMask:
    """Return the mask for `length` tokens that are read at once: each attends to itself and to those before it.

    window: how many keys a query attends to, its own included. documents: tokens attend within equal numbers only.
    in_blocks: whether a short window may be masked block by block.
    """
    if window is not None and window >= length:
        window = None
    if window is None and bias is None and documents is None:
        return AttentionMask(causal=True)
    if in_blocks and window is not None and 2 * window < length and documents is None:
        return AttentionMask(_block_mask(window, device, bias), block_length=window)
    positions = torch.arange(length, device=device)
    mask = visible_keys(positions, positions, first=None, window=window)
    if documents is not None:
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])  # (B, 1, T, T)
    return AttentionMask(_biased(mask, positions, positions, bias))


def bidirectional_mask(
    length: int,
    device: torch.device,
    *,
    window: int | None,
    bias: Bias | None,
    documents: Int64[Tensor, "B T"] | None,
) -> AttentionMask:
    """Return the mask of `causal_mask`, but a query also attends to the tokens after it; a bias that is not `two_sided`
    is the same on both sides.
    """
    if window is not None and window >= length:
        window = None
    if window is None and bias is None and documents is None:
        return AttentionMask()
    positions = torch.arange(length, device=device)
    signed = positions[:, None] - positions
    distances = signed.abs()
    mask = (distances < (window or length))[None, None]
    if documents is not None:
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])  # (B, 1, T, T)
    if bias is None:
        return AttentionMask(mask)
    biases = bias(signed if getattr(bias, "two_sided", False) else distances)
    return AttentionMask(biases[None].masked_fill(~mask, -torch.inf))


def cached_mask(
    queries: Int64[Tensor, " T"],
    keys: Int64[Tensor, " S"],
    first: Int64[Tensor, "B T"] | None,
    window: int | None,
    bias: Bias | None,
) -> AttentionMask:
    """Return the causal mask for the columns of queries and keys in a cache.

    first: the first column each query attends to.
    """
    return AttentionMask(_biased(visible_keys(queries, keys, first, window), queries, keys, bias))


def visible_keys(
    queries: Int64[Tensor, " T"], keys: Int64[Tensor, " S"], first: Int64[Tensor, "B T"] | None, window: int | None
) -> Bool[Tensor, "#B 1 T S"]:
    """Return whether each query attends to each key, causally.

    queries, keys: their columns. first: as in `cached_mask`.
    """
    distances = queries[:, None] - keys
    mask = distances >= 0 if window is None else (distances >= 0) & (distances < window)
    return mask[None, None] if first is None else mask & (keys >= first[:, None, :, None])


def _biased(mask: Tensor, queries: Tensor, keys: Tensor, bias: Bias | None) -> Tensor:
    if bias is None:
        return mask
    return bias(queries[:, None] - keys)[None].masked_fill(~mask, -torch.inf)


def _block_mask(
    block: int, device: torch.device, bias: Bias | None
) -> Float[
    Tensor,
    (
        1  # H block keys
    ),
]:
    """Return the mask of one block of queries over the keys of the block before and its own."""
    queries, keys = torch.arange(block, 2 * block, device=device), torch.arange(2 * block, device=device)
    return _biased(visible_keys(queries, keys, None, block), queries, keys, bias)
