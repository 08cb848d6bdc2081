"""Sources that were read once, and the rows of a decoder that look at them.

Many rows may look at one source: the hypotheses of a beam, or samples. What the source holds is never copied for them:
rows of one source become further queries of its row. Legend: M sources, S their tokens, B rows of the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from torch import Tensor


class WeightLists(NamedTuple):
    """Where each layer puts its attention weights: on the source, (B, H, T, S), and on the target, (B, H, T, T)."""

    source: list[Tensor]
    target: list[Tensor]


class KeysAndValues(NamedTuple):
    """What a layer of the decoder looks at: made of the memory once. (M, H, S, d) each."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class Source:
    """seen: (M, S), True where there is a token. memory: (M, S, D), and its summary: (M, D).

    keys_and_values: for each layer of the decoder. rows: the source of each row of the decoder, (B,). groups: how these
    rows are grouped by source. weights_out: where attention records its weights, if at all.
    """

    seen: Tensor
    memory: Tensor
    summary: Tensor
    keys_and_values: tuple[KeysAndValues, ...]
    rows: Tensor
    groups: _Groups
    weights_out: WeightLists | None = None

    @classmethod
    def of(cls, seen: Tensor, memory: Tensor, summary: Tensor, keys_and_values: tuple[KeysAndValues, ...]) -> Source:
        """Whose rows are the decoder's own."""
        rows = torch.arange(len(seen), device=seen.device)
        return cls(seen, memory, summary, keys_and_values, rows, _Groups(1, None))

    def at(self, rows: Tensor, weights_out: WeightLists | None = None) -> Source:
        """The same sources, weights_out at by other rows. rows: (B,), int64, each a source."""
        return replace(self, rows=rows, groups=_groups_of(rows, len(self.seen)), weights_out=weights_out)

    @property
    def mask(self) -> Tensor:
        """(M, 1, 1, S)."""
        return self.seen[:, None, None]

    def grouped(self, x: Tensor) -> Tensor:
        """What the rows ask, by source: (B, H, T, d) -> (M, H, G T, d), where G is the most rows of one source."""
        size, slots = self.groups
        heads, times, width = x.shape[1:]
        if slots is not None:
            x = x.new_zeros(len(self.seen) * size, heads, times, width).index_copy(0, slots, x)
        if size == 1:
            return x
        return x.view(-1, size, heads, times, width).transpose(1, 2).flatten(2, 3)

    def of_rows(self, x: Tensor, times: int) -> Tensor:
        """What they found: (M, H, G T, d) -> (B, H, T, d)."""
        size, slots = self.groups
        if size > 1:
            x = x.view(*x.shape[:2], size, times, -1).transpose(1, 2).flatten(0, 1)
        return x if slots is None else x.index_select(0, slots)


class _Groups(NamedTuple):
    """size: the rows of each source. slots: where each row stands among them; None: one after the other, none free."""

    size: int
    slots: Tensor | None


def _groups_of(rows: Tensor, sources: int) -> _Groups:
    counts = torch.bincount(rows, minlength=sources)
    size = max(1, int(counts.max())) if len(rows) else 1
    in_order = torch.arange(sources, device=rows.device).repeat_interleave(size)
    if len(rows) == len(in_order) and torch.equal(rows, in_order):
        return _Groups(size, None)
    order = rows.argsort(stable=True)
    first = counts.cumsum(0) - counts
    slots = torch.empty_like(rows)
    slots[order] = rows[order] * size + torch.arange(len(rows), device=rows.device) - first[rows[order]]
    return _Groups(size, slots)
