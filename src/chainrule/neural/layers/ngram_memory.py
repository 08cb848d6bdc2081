"""N-gram memory: a learned row for each of the last n-grams of a text, added to what a network's output reads.

With the contexts of 1 to N - 1 last tokens, the token that is read included,

    m_t = C sum over k < N of rows_k[hash(w_t-k+1 .. w_t)],      log P(w | ..) = log softmax(U (h_t + m_t) + b)

as the direct connections of Mikolov et al. 2011 (Strategies for training large scale neural network language models,
RNNME), but through a matrix C to the vector before the output instead of each logit, so that rows are short and any
output can read them. Only contexts are
hashed, never the token that follows: two contexts that share a row are merged, and probabilities sum to one all the
same. Contexts do not reach back over the beginning of a text, and one that is longer than the text so far has no row.

The rows start at 0. In training their gradient is sparse, so that a step costs what it touches; `RowAdagrad` in
`training/optimisers.py` learns from it.
Legend: B batch, T time, W and D widths of rows and of hidden states, N order, K = N - 1 lengths of contexts, P = N - 2
tokens before the one that is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from chainrule.base.lanes import LANES
from chainrule.neural.layers.basic import segment_starts

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64

NOTHING = -1  # in place of a token before the beginning of a text
_WORD = 1 << 64


class NGramMemory(nn.Module):
    """The rows of contexts of 1 to N - 1 tokens. A state holds the last N - 2 tokens, (B, N - 2), or `NOTHING`."""

    def __init__(self, order: int, rows: int, row_width: int, width: int) -> None:
        """order: N. rows: for each length of context. row_width: the numbers in a row. width: those that the output
        reads.
        """
        super().__init__()
        self.order, self.rows = order, rows
        self._multipliers = np.array([_signed(_odd(back)) for back in range(order - 1)])  # (K,)
        self.table = nn.Parameter(torch.zeros((order - 1) * rows, row_width))
        self.projection = nn.Linear(row_width, width, bias=False)
        nn.init.normal_(self.projection.weight, std=row_width**-0.5)

    @property
    def reach(self) -> int:
        """How many of the last tokens it depends on."""
        return self.order - 1

    def start(self, batch: int) -> Int64[Tensor, "B P"]:
        """The state of rows that have read nothing."""
        return torch.full((batch, self.order - 2), NOTHING, device=self.table.device)

    def forward(
        self,
        tokens: Int64[Tensor, "B T"],
        recent: Int64[Tensor, "B P"] | None = None,
        starts: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], Int64[Tensor, "B P"]]:
        """What is added after each token, and the state after the last one.

        recent: the state before the first; None: nothing was read. starts: as for `Encoder`.
        """
        if tokens.shape[1] == 1 and recent is not None and not torch.is_grad_enabled():
            table, weight = self.table, self.projection.weight
            is_plain = table.dtype == torch.float32 == weight.dtype and table.device.type == "cpu"
            if is_plain and table.shape[1] % LANES == 0:
                return _step(self, table, weight, tokens, recent, starts)
        slots, recent = self.slots(tokens, recent, starts)
        return self.project(self.look_up(slots)), recent

    def project(self, rows: Float[Tensor, "*shape W"]) -> Float[Tensor, "*shape D"]:
        """Rows, or their sum, as they are added to hidden states."""
        weight = self.projection.weight
        return F.linear(rows.to(weight.dtype), weight)

    def look_up(self, slots: Int64[Tensor, "B T K"]) -> Float[Tensor, "B T W"]:
        """The sum of some rows at each position. slots: as `slots` gives them."""
        is_there = (slots >= 0).to(self.table.dtype)
        flat, weights = (each.flatten(0, -2) for each in (slots.clamp_min(0), is_there))
        learns = self.training and torch.is_grad_enabled()
        rows: Tensor = F.embedding_bag(flat, self.table, mode="sum", sparse=learns, per_sample_weights=weights)
        return rows.view(*slots.shape[:-1], -1)

    def slots(
        self,
        tokens: Int64[Tensor, "B T"],
        recent: Int64[Tensor, "B P"] | None = None,
        starts: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Int64[Tensor, "B T K"], Int64[Tensor, "B P"]]:
        """The row of each context in the table, the shortest first, -1 for none; and the state after the last token."""
        length, before = tokens.shape[1], self.order - 2
        recent = self.start(len(tokens)) if recent is None else recent
        whole = torch.cat((recent, tokens), 1)
        positions = torch.arange(-before, length, device=tokens.device)
        begins = None if starts is None else segment_starts(starts, before)  # (B, T)
        mixed, slots = torch.zeros_like(tokens), []
        is_there = torch.ones_like(tokens, dtype=torch.bool)
        for back in range(self.order - 1):
            span = slice(before - back, before - back + length)
            is_there = is_there & (whole[:, span] >= 0)
            if begins is not None:
                is_there = is_there & (positions[span] >= begins)
            mixed = mixed ^ ((whole[:, span] + 1) * _signed(_odd(back)))
            slots.append(torch.where(is_there, _scaled(mixed, self.rows) + back * self.rows, -1))
        after = whole[:, length:]
        if begins is not None:
            after = after.masked_fill(positions[length:] < begins[:, -1:], NOTHING)
        return torch.stack(slots, -1), after


def _step(
    memory: NGramMemory,
    table: Tensor,
    weight: Tensor,
    tokens: Int64[Tensor, "B 1"],
    recent: Int64[Tensor, "B P"],
    starts: Bool[Tensor, "B 1"] | None,
) -> tuple[Float[Tensor, "B 1 D"], Int64[Tensor, "B P"]]:
    """`NGramMemory.forward` for one token of each text, with its table and its projection.

    By one kernel: torch takes longer to call its operations than to compute this.
    """
    from chainrule.neural.layers.product_kernels import remember_tokens

    before, read = recent.numpy(), tokens.numpy()
    if starts is not None and starts.any():
        before = np.where(starts.numpy(), NOTHING, before)
    if not (before.flags.c_contiguous and read.flags.c_contiguous):
        before, read = np.ascontiguousarray(before), np.ascontiguousarray(read)
    after, summed = np.empty_like(before), np.empty((len(before), table.shape[1]), np.float32)
    out = np.empty((len(before), 1, len(weight)), np.float32)
    numbers = memory._multipliers, _LAST_MULTIPLIER, memory.rows
    remember_tokens(before, read, *numbers, table.numpy(), weight.numpy(), after, summed, out[:, 0])
    return torch.from_numpy(out), torch.from_numpy(after)


def _scaled(mixed: Int64[Tensor, "*shape"], size: int) -> Int64[Tensor, "*shape"]:
    """A number below `size` from all 64 bits of each: their product with an odd number, whose upper half is scaled.

    torch has no arithmetic with uint64; products of int64 have the same bits, and what a shift fills in is masked.
    """
    mixed = mixed ^ ((mixed >> 31) & ((1 << 33) - 1))
    upper = ((mixed * _LAST_MULTIPLIER) >> 32) & ((1 << 32) - 1)
    return (upper * size) >> 32


_FINAL = 1 << 32  # of the last product; those before are numbered by position


def _odd(number: int) -> int:
    """An odd multiplier of 64 bits: the output of SplitMix64 of that number (Steele, Lea and Flood 2014)."""
    z = (number + 1) * 0x9E3779B97F4A7C15 % _WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % _WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % _WORD
    return (z ^ z >> 31) | 1


def _signed(word: int) -> int:
    """The int64 with the bits of a word."""
    return word - _WORD if word >> 63 else word


_LAST_MULTIPLIER = _signed(_odd(_FINAL))


def memories_of(network: nn.Module) -> list[nn.Parameter]:
    """The tables of a network whose gradients are sparse, and which no dense optimiser, average or norm may walk."""
    return [module.table for module in network.modules() if isinstance(module, NGramMemory)]


def dense_parameters(network: nn.Module) -> list[nn.Parameter]:
    """All parameters of a network but those of `memories_of`."""
    tables = {id(table) for table in memories_of(network)}
    return [parameter for parameter in network.parameters() if id(parameter) not in tables]
