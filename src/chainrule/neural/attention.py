"""Attention: which keys each query sees, and what it takes from them, by the fused kernel.

Legend: B batch, H heads, K heads of keys and values (a divisor of H), T queries, S keys, d numbers in a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from chainrule.neural.capabilities import attends_in_bfloat16
from chainrule.neural.dropout import dropped

if TYPE_CHECKING:
    from collections.abc import Callable

    Bias = Callable[[Tensor], Tensor]  # distances (T, S) -> (H, T, S)


class Sight(NamedTuple):
    """What the queries see.

    mask: what is added to the scores, or True where a key is seen: (B or 1, H or 1, T, S); None: all of them.
    causal: query i of T sees key j of T where j <= i, and there is no mask.
    blocks: the mask is that of one block of queries, of its own and the one before, (1, H or 1, block, 2 block); see
    `attend_in_blocks`.
    looked: where the weights go, (B, H, T, S), if there is such a list: they are what attention makes of the values
    that are one key each.
    """

    mask: Tensor | None = None
    causal: bool = False
    blocks: int | None = None
    looked: list[Tensor] | None = None


def attend(query: Tensor, key: Tensor, value: Tensor, sight: Sight, dropout: float = 0.0) -> Tensor:
    """softmax(Q K^T / sqrt(d)) V. query: (B, H, T, d); key, value: (B, K, S, d) -> (B, H, T, d)."""
    if sight.looked is not None:
        one = torch.eye(key.shape[2], dtype=key.dtype, device=key.device).expand(*key.shape[:3], -1)
        sight.looked.append(attend(query, key, one, sight._replace(looked=None)))
    if sight.blocks is not None:
        return attend_in_blocks(query, key, value, sight, dropout)
    heads, key_heads = query.shape[1], key.shape[1]
    mask = sight.mask
    if heads != key_heads and query.shape[2] == 1:  # a group's queries see the same keys: they are its rows
        rows, _, _, width = query.shape
        grouped = query.view(rows, key_heads, heads // key_heads, width)
        if mask is not None and mask.shape[1] == heads:
            mask = mask.view(mask.shape[0], key_heads, heads // key_heads, mask.shape[3])
        return attend_fused(grouped, key, value, mask, dropout).view(query.shape)
    if heads != key_heads:
        key, value = (each.repeat_interleave(heads // key_heads, 1) for each in (key, value))
    return attend_fused(query, key, value, mask, dropout, causal=sight.causal)


def attend_fused(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """By torch's kernel; in float32 where it is slower in bfloat16. scale: of products; 1/sqrt(d)."""
    device = query.device.type
    if torch.is_autocast_enabled(device) and not attends_in_bfloat16(device):
        with torch.autocast(device, enabled=False):
            mask = mask.float() if mask is not None and mask.is_floating_point() else mask
            exact = query.float(), key.float(), value.float()
            return F.scaled_dot_product_attention(*exact, mask, dropout, causal, scale=scale)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale=scale)


def attend_plainly(
    score: Callable[[Tensor, Tensor], Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    sight: Sight,
    dropout: float = 0.0,
) -> Tensor:
    """`attend`, with another score than the kernel's: queries and keys -> (B, H, T, S). There are no blocks."""
    scores = score(query, key)
    if sight.causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), -torch.inf)
    if sight.mask is not None:
        is_added = sight.mask.is_floating_point()
        scores = scores + sight.mask if is_added else scores.masked_fill(~sight.mask, -torch.inf)
    weights = scores.softmax(-1)
    if sight.looked is not None:
        sight.looked.append(weights)
    return dropped(weights, dropout) @ value


def attend_in_blocks(query: Tensor, key: Tensor, value: Tensor, sight: Sight, dropout: float = 0.0) -> Tensor:
    """Attention in a window of at most a block's length: a block of queries sees its own keys and the block's before.

    Time and memory grow with T times the window. Shapes as `attend`, with S = T.
    """
    block = sight.blocks
    assert block is not None
    assert sight.mask is not None
    rows, length = query.shape[0], query.shape[2]
    missing = -length % block
    query, key, value = (F.pad(each, (0, 0, 0, missing)) for each in (query, key, value))
    blocks = query.shape[2] // block

    def cut(x: Tensor) -> Tensor:
        """(B, H, T, d) -> (B blocks, H, block, d)"""
        return x.reshape(rows, -1, blocks, block, x.shape[3]).transpose(1, 2).flatten(0, 1)

    def with_last(x: Tensor) -> Tensor:
        """(B, K, T, d) -> (B blocks, K, 2 block, d); before the first block there are zeros"""
        return torch.cat((cut(F.pad(x, (0, 0, block, 0))[:, :, :-block]), cut(x)), 2)

    # The zeros before the first block must not be seen: its mask differs.
    mask = sight.mask.repeat(blocks, 1, 1, 1)  # (blocks, H or 1, block, 2 block)
    hidden = torch.zeros_like(mask[:1, :, :, :block])
    mask[:1, :, :, :block] = hidden if mask.dtype == torch.bool else hidden - torch.inf
    mask = mask.repeat(rows, 1, 1, 1)
    found = attend(cut(query), with_last(key), with_last(value), Sight(mask), dropout)
    found = found.view(rows, blocks, *found.shape[1:]).transpose(1, 2).flatten(2, 3)  # (B, H, T, d)
    return found[:, :, :length]


def causal_sight(
    length: int, device: torch.device, *, window: int | None, bias: Bias | None, documents: Tensor | None
) -> Sight:
    """Of `length` tokens that are read at once.

    window: how many keys a query sees, its own among them. documents: (B, T), equal numbers see each other.
    """
    if window is not None and window >= length:
        window = None
    if window is None and bias is None and documents is None:
        return Sight(causal=True)
    if window is not None and 2 * window < length and documents is None:
        return Sight(_local_mask(window, device, bias), blocks=window)
    places = torch.arange(length, device=device)
    mask = seen(places, places, first=None, window=window)
    if documents is not None:
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])  # (B, 1, T, T)
    return Sight(_biased(mask, places, places, bias))


def two_sided_sight(
    length: int, device: torch.device, *, window: int | None, bias: Bias | None, documents: Tensor | None
) -> Sight:
    """As `causal_sight`, but that a query sees what is behind it, too; a bias is the same on both sides."""
    if window is not None and window >= length:
        window = None
    if window is None and bias is None and documents is None:
        return Sight()
    places = torch.arange(length, device=device)
    distances = (places[:, None] - places).abs()
    mask = (distances < (window or length))[None, None]
    if documents is not None:
        mask = mask & (documents[:, None, :, None] == documents[:, None, None, :])  # (B, 1, T, T)
    return Sight(mask if bias is None else bias(distances)[None].masked_fill(~mask, -torch.inf))


def cached_sight(queries: Tensor, keys: Tensor, first: Tensor | None, window: int | None, bias: Bias | None) -> Sight:
    """Of queries at columns (T,), of keys at columns (S,). first: (B, T), the first column that each query may see."""
    return Sight(_biased(seen(queries, keys, first, window), queries, keys, bias))


def seen(queries: Tensor, keys: Tensor, first: Tensor | None, window: int | None) -> Tensor:
    """Whether a query sees a key: (B or 1, 1, T, S)."""
    distances = queries[:, None] - keys
    mask = distances >= 0 if window is None else (distances >= 0) & (distances < window)
    return mask[None, None] if first is None else mask & (keys >= first[:, None, :, None])


def _biased(mask: Tensor, queries: Tensor, keys: Tensor, bias: Bias | None) -> Tensor:
    if bias is None:
        return mask
    return bias(queries[:, None] - keys)[None].masked_fill(~mask, -torch.inf)


def _local_mask(block: int, device: torch.device, bias: Bias | None) -> Tensor:
    """(1, H or 1, block, 2 block): of a block's queries, over the keys of the block before and its own."""
    queries, keys = torch.arange(block, 2 * block, device=device), torch.arange(2 * block, device=device)
    return _biased(seen(queries, keys, None, block), queries, keys, bias)
