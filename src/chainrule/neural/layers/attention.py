"""Attention: the mean of values, weighted by how well queries match keys; and its score functions.

torch's fused kernel computes it where it can, and a kernel of ours that of single queries to a cache. Score functions
say how well a query s matches a key h:

    dot           s . h                        Luong et al. 2015, section 3.1
    scaled_dot    s . h / sqrt(d)              Vaswani et al. 2017, equation 1
    general       s . W h                      Luong et al. 2015, section 3.1
    content       b cos(s, h), b learned       Graves et al. 2014, equations 5 and 6
    cosine        cos(s, h)                    the same with b = 1, so that weights stay soft
    additive      v . tanh(W s + U h)          Bahdanau et al. 2015, appendix A.1.2
    location      (W s)_j for the j-th key     Luong et al. 2015, equation 8

Each score is a function of `query(s)` and `key(h)`, so that what depends on the keys alone is computed once. The first
five are dot products of the two, which the fused kernel computes.
Legend: B batch, H heads, K heads of keys and values (a divisor of H), T queries, S keys, d width of a head, e width of
prepared queries and keys.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.lanes import LANES
from chainrule.errors import SettingError
from chainrule.neural.device import attends_in_bfloat16
from chainrule.neural.layers.basic import drop
from chainrule.neural.layers.masks import AttentionMask
from chainrule.neural.layers.matrix_products import scales_of
from chainrule.neural.layers.state import widened

if TYPE_CHECKING:
    from collections.abc import Callable

    from jaxtyping import Bool, Float, Shaped

    from chainrule.neural.config.network import ScoreName


_WITHOUT_MATRICES = ("dot", "scaled_dot", "content", "cosine")


def attend(
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B K S d"],
    value: Float[Tensor, "B K S d"],
    mask: AttentionMask,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T d"]:
    """Return softmax(Q K^T / sqrt(d)) V (Vaswani et al. 2017, equation 1). Query head h reads key head h // (H / K)."""
    heads, key_heads, tensor = query.shape[1], key.shape[1], mask.tensor
    is_plain = mask.weights_out is None and mask.block_length is None and not dropout
    if query.shape[2] == 1 and is_plain and (found := _attend_once(query, key, value, tensor)) is not None:
        return found
    key, value = widened(key, value, query.dtype)
    if mask.weights_out is not None:
        return attend_unfused(scaled_dot, query, key, value, mask, dropout)
    if mask.block_length is not None:
        return attend_in_blocks(query, key, value, mask, dropout)
    if heads != key_heads and query.shape[2] == 1:  # the queries of a group see the same keys: they become its rows
        rows, _, _, width = query.shape
        grouped = query.view(rows, key_heads, heads // key_heads, width)
        if tensor is not None and tensor.shape[1] == heads:
            tensor = tensor.view(tensor.shape[0], key_heads, heads // key_heads, tensor.shape[3])
        return attend_fused(grouped, key, value, tensor, dropout).view(query.shape)
    if not (query.device.type == "cpu" and torch.is_grad_enabled()):  # else the kernel reads shared heads itself
        key, value = _repeated(key, heads), _repeated(value, heads)
    return attend_fused(query, key, value, tensor, dropout, causal=mask.causal)


def _attend_once(
    query: Float[Tensor, "B H 1 d"],
    key: Float[Tensor, "B K S d"],
    value: Float[Tensor, "B K S d"],
    mask: Shaped[Tensor, "#B #H 1 S"] | None,
) -> Float[Tensor, "B H 1 d"] | None:
    """Return attention of one query in each row to keys that a cache has beside their values, by a kernel whose bits
    depend neither on other rows nor on threads; None where it does not suit.

    torch's kernel is made for many queries.
    """
    if torch.compiler.is_compiling() or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return None
    rows, heads, _, width = query.shape
    if query.device.type != "cpu" or width % (2 * LANES) or query.dtype != torch.float32 or not query.numel():
        return None
    is_packed = key.dtype == torch.int8
    is_beside = key.data_ptr() + width * key.element_size() == value.data_ptr() and key.stride() == value.stride()
    if not is_packed and (not is_beside or key.stride(3) != 1 or key.dtype != torch.float32):
        return None
    columns = key.shape[2]
    begins = np.zeros(rows, np.int64)
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape[1] != 1:
            return None
        visible = mask.expand(rows, 1, 1, columns).reshape(rows, columns).numpy()
        begins = visible.argmax(1)
        if not np.array_equal(visible.sum(1), columns - begins):
            return None
    from chainrule.neural.packed.attention_kernels import attend as attend_by_kernel

    both = key.detach()
    if not is_packed:
        both = both.as_strided((rows, key.shape[1], columns, 2 * width), key.stride())
    keys = both.numpy()
    scales = scales_of(keys, 2 * width) if is_packed else keys
    out = torch.empty(rows, heads * width)
    queries = query.detach().reshape(rows, heads, width).contiguous().numpy()
    attend_by_kernel(queries, keys, scales, begins, np.full(rows, columns), 1 / math.sqrt(width), 0.0, out.numpy())
    return out.view(rows, heads, 1, width)


def attend_fused(
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B K S d"],
    value: Float[Tensor, "B K S v"],
    mask: Shaped[Tensor, "#B #H T S"] | None,
    dropout: float,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Float[Tensor, "B H T v"]:
    """Return attention by torch's kernel, in float32 where the kernel is slower in bfloat16.

    mask, causal: as in `AttentionMask`. scale: the factor of the dot products; None for 1 / sqrt(d).
    """
    device, shared = query.device.type, query.shape[1] != key.shape[1]
    # On meta, where shapes alone are computed, torch knows no autocast.
    if device != "meta" and torch.is_autocast_enabled(device) and not attends_in_bfloat16(device):
        with torch.autocast(device, enabled=False):
            mask = mask.float() if mask is not None and mask.is_floating_point() else mask
            exact = query.float(), key.float(), value.float()
            return F.scaled_dot_product_attention(*exact, mask, dropout, causal, scale=scale, enable_gqa=shared)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale=scale, enable_gqa=shared)


def attend_unfused(
    score: Callable[[Tensor, Tensor], Tensor],
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B K S d"],
    value: Float[Tensor, "B K S d"],
    mask: AttentionMask,
    dropout: float = 0.0,
    *,
    sinks: Float[Tensor, " H"] | None = None,
) -> Float[Tensor, "B H T d"]:
    """Attend as `attend` does, but with any score function from queries and keys to (B, H, T, S), and with weights that
    can be recorded.

    The mask must not be in blocks. sinks: a score for each head that takes its share of the softmax, without a value.
    """
    assert mask.block_length is None
    heads = query.shape[1]
    scores = score(query, _repeated(key, heads))
    if mask.causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0], dtype=torch.bool).tril(), -torch.inf)
    if mask.tensor is not None:
        is_added = mask.tensor.is_floating_point()
        scores = scores + mask.tensor if is_added else scores.masked_fill(~mask.tensor, -torch.inf)
    if sinks is None:
        weights = scores.softmax(-1)
    else:
        sink = sinks.to(scores.dtype).view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat((scores, sink), -1).softmax(-1)[..., :-1]
    if mask.weights_out is not None:
        mask.weights_out.append(weights)
    return drop(weights, dropout) @ _repeated(value, heads)


def scaled_dot(query: Float[Tensor, "B H T d"], key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H T S"]:
    """Return a score function for `attend_unfused`: Vaswani et al. 2017, equation 1."""
    return query @ key.mT / math.sqrt(query.shape[-1])


def attend_in_blocks(
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B K T d"],
    value: Float[Tensor, "B K T d"],
    mask: AttentionMask,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T d"]:
    """Attend as `attend` does, in a window of at most a block: the queries of a block attend to its keys and those of
    the block before it.

    Time and memory grow with T times the window.
    """
    block = mask.block_length
    assert block is not None
    assert mask.tensor is not None
    rows, length = query.shape[0], query.shape[2]
    missing = -length % block
    query, key, value = (F.pad(x, (0, 0, 0, missing)) for x in (query, key, value))
    blocks = query.shape[2] // block

    def cut(x: Tensor) -> Tensor:
        """Cut rows into blocks: (B, H, T, d) -> (B blocks, H, block, d)"""
        return x.reshape(rows, -1, blocks, block, x.shape[3]).transpose(1, 2).flatten(0, 1)

    def with_previous(x: Tensor) -> Tensor:
        """Put the previous block before each: (B, K, T, d) -> (B blocks, K, 2 block, d); zeros precede the first
        block
        """
        return torch.cat((cut(F.pad(x, (0, 0, block, 0))[:, :, :-block]), cut(x)), 2)

    # The zeros before the first block must not be attended to: its mask differs.
    tensor = mask.tensor.repeat(blocks, 1, 1, 1)  # (blocks, H or 1, block, 2 block)
    hidden = torch.zeros_like(tensor[:1, :, :, :block])
    tensor[:1, :, :, :block] = hidden if tensor.dtype == torch.bool else hidden - torch.inf
    tensor = tensor.repeat(rows, 1, 1, 1)
    result = attend(cut(query), with_previous(key), with_previous(value), AttentionMask(tensor), dropout)
    result = result.view(rows, blocks, *result.shape[1:]).transpose(1, 2).flatten(2, 3)  # (B, H, T, d)
    return result[:, :, :length]


def _repeated(x: Float[Tensor, "B K S d"], heads: int) -> Float[Tensor, "B H S d"]:
    """Return keys or values, once for each query head that shares them."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


class Score(Protocol):
    """A score function, as an nn.Module."""

    is_product: bool  # whether the score is the dot product of the prepared query and key

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """Return queries, prepared."""

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """Return keys, prepared."""

    def __call__(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """Return the scores of prepared queries and keys."""


class Product(nn.Module):
    """The scores dot, scaled_dot, general, cosine and content, which are dot products of prepared queries and keys."""

    is_product = True

    def __init__(self, name: ScoreName, heads: int, width: int) -> None:
        """Build the weights of the score, if it has any. width: of a head."""
        super().__init__()
        self.is_cosine = name in ("cosine", "content")
        self.scale = width**-0.5 if name == "scaled_dot" else 1.0
        self.matrix = nn.Parameter(torch.empty(heads, width, width)) if name == "general" else None
        self.sharpness = nn.Parameter(torch.zeros(heads, 1, 1)) if name == "content" else None  # log b
        if self.matrix is not None:
            nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)
        if self.sharpness is not None:
            nn.init.constant_(self.sharpness, math.log(math.sqrt(width)))

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """Implement `Score.query`."""
        if self.is_cosine:
            directions = F.normalize(query, dim=-1)
            return directions if self.sharpness is None else directions * self.sharpness.exp()
        return query * self.scale

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """Implement `Score.key`."""
        if self.is_cosine:
            return F.normalize(key, dim=-1)
        return key if self.matrix is None else _by_head(key, self.matrix)

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """Return the scores, as `Score` does."""
        return query @ key.mT


class Additive(nn.Module):
    """v . tanh(W s + U h)."""

    is_product = False

    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.of_query, self.of_key = (nn.Parameter(torch.empty(heads, width, width)) for _ in range(2))
        self.weights = nn.Parameter(torch.empty(heads, 1, 1, width))
        for weight in (self.of_query, self.of_key, self.weights):
            nn.init.uniform_(weight, -(width**-0.5), width**-0.5)

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """Implement `Score.query`."""
        return _by_head(query, self.of_query)

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """Implement `Score.key`."""
        return _by_head(key, self.of_key)

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """Return the scores, as `Score` does."""
        return (torch.tanh(query.unsqueeze(3) + key.unsqueeze(2)) * self.weights).sum(-1)


class Location(nn.Module):
    """(W s)_j: the score of the j-th key depends on the query and j alone."""

    is_product = False

    def __init__(self, heads: int, width: int, longest: int) -> None:
        """Build the matrix. longest: the most keys."""
        super().__init__()
        self.matrix = nn.Parameter(torch.empty(heads, longest, width))
        nn.init.uniform_(self.matrix, -(width**-0.5), width**-0.5)

    def query(self, query: Float[Tensor, "B H T d"]) -> Float[Tensor, "B H T e"]:
        """Implement `Score.query`: return the scores of all positions that a key may have."""
        return _by_head(query, self.matrix)

    def key(self, key: Float[Tensor, "B H S d"]) -> Float[Tensor, "B H S e"]:
        """Implement `Score.key`; only the number of keys matters."""
        return key

    def forward(self, query: Float[Tensor, "B H T e"], key: Float[Tensor, "B H S e"]) -> Float[Tensor, "B H T S"]:
        """Return the scores, as `Score` does."""
        return query[..., : key.shape[2]]


def _by_head(x: Float[Tensor, "B H T d"], matrix: Float[Tensor, "H e d"]) -> Float[Tensor, "B H T e"]:
    """Return a product with each head's own matrix; `@` would copy the matrix for each row."""
    return torch.einsum("bhtd,hed->bhte", x, matrix)


def build_score(name: ScoreName, heads: int, width: int, longest: int) -> Product | Additive | Location:
    """Return the score of that name. width: d, of a head. longest: the most keys, which the location score must
    know.
    """
    if name == "additive":
        return Additive(heads, width)
    if name == "location":
        return Location(heads, width, longest)
    return Product(name, heads, width)


def attention_weights(
    score: Score | ScoreName,
    query: Float[Tensor, "*B T d"],
    key: Float[Tensor, "*B S d"],
    mask: Bool[Tensor, "#B #H #T S"] | None = None,
) -> Float[Tensor, "*B T S"]:
    """Return softmax(score) over the keys, of queries and keys that are not prepared; exactly 0 where the mask is
    False.

    score: what `build_score` makes, for (B, H, T, d) and (B, H, S, d), or the name of a score with nothing to learn;
    `content` is one with b = sqrt(d), with which it begins. Raises SettingError for another name.
    """
    if not isinstance(score, str):
        return weights_of_prepared(score, score.query(query), score.key(key), mask)
    if score not in _WITHOUT_MATRICES:
        raise SettingError(
            f"no score without matrices is called {score!r}; expected one of {', '.join(_WITHOUT_MATRICES)}, or the "
            "module that build_score makes"
        )
    product = Product(score, 1, query.shape[-1]).requires_grad_(False).to(query)
    weights = weights_of_prepared(product, product.query(query), product.key(key), mask)
    return weights.view(*query.shape[:-1], key.shape[-2])


def weights_of_prepared(
    score: Score,
    query: Float[Tensor, "B H T e"],
    key: Float[Tensor, "B H S e"],
    mask: Bool[Tensor, "#B #H #T S"] | None,
) -> Float[Tensor, "B H T S"]:
    """Return the weights of `attention_weights`, of what `score.query` and `score.key` return, which callers keep."""
    scores = score(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1)


def attend_prepared(
    score: Score,
    query: Float[Tensor, "B H T e"],
    key: Float[Tensor, "B H S e"],
    value: Float[Tensor, "B H S v"],
    mask: Bool[Tensor, "#B #H #T S"] | None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T v"]:
    """Return softmax(score) V, by the fused kernel if the score is a dot product. query, key: prepared by `score`."""
    if score.is_product:
        return attend_fused(query, key, value, mask, dropout, scale=1.0)
    return drop(weights_of_prepared(score, query, key, mask), dropout) @ value


def attend_by_score(
    score: Score,
    query: Float[Tensor, "B H T d"],
    key: Float[Tensor, "B H S d"],
    value: Float[Tensor, "B H S v"],
    mask: Bool[Tensor, "#B #H #T S"] | None,
    dropout: float = 0.0,
) -> Float[Tensor, "B H T v"]:
    """Return softmax(score) V, of queries and keys that are not prepared."""
    return attend_prepared(score, score.query(query), score.key(key), value, mask, dropout)
