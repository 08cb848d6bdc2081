"""Sources that were encoded once, and the rows of a decoder that attend to them.

Many rows may attend to one source: the hypotheses of a beam, or samples. Nothing of the source is copied for them: they
become more queries of its row. Legend: M sources, S their tokens, B rows of the decoder, G rows of a source at most,
H heads, T time, d width of a head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int64
    from torch import Tensor


class WeightLists(NamedTuple):
    """Lists to which each layer appends its attention weights."""

    source: list[Float[Tensor, "B H T S"]]  # of the target on the source
    target: list[Float[Tensor, "B H T T"]] | None  # of the target on itself; None: not recorded


class KeysAndValues(NamedTuple):
    """What a layer of the decoder attends to, computed from the memory once."""

    keys: Float[Tensor, "M H S d"]
    values: Float[Tensor, "M H S d"]


@dataclass(frozen=True)
class Source:
    """Encoded sources.

    is_token: False at padding. memory, summary: see `readers.Encoding`. keys_and_values: for each layer of the decoder.
    rows: the source of each row of the decoder. groups: how these rows are grouped by source. weights_out: where
    attention records its weights, if at all.
    """

    is_token: Bool[Tensor, "M S"]
    memory: Float[Tensor, "M S D"]
    summary: Float[Tensor, "M D"]
    keys_and_values: tuple[KeysAndValues, ...]
    rows: Int64[Tensor, " B"]
    groups: _Groups
    weights_out: WeightLists | None = None

    @classmethod
    def of(
        cls,
        is_token: Bool[Tensor, "M S"],
        memory: Float[Tensor, "M S D"],
        summary: Float[Tensor, "M D"],
        keys_and_values: tuple[KeysAndValues, ...],
    ) -> Source:
        """Sources with one row of the decoder each."""
        rows = torch.arange(len(is_token), device=is_token.device)
        return cls(is_token, memory, summary, keys_and_values, rows, _Groups(1, None))

    def at(self, rows: Int64[Tensor, " B"], weights_out: WeightLists | None = None) -> Source:
        """The same sources for other rows of the decoder. rows: the source of each."""
        return replace(self, rows=rows, groups=_group(rows, len(self.is_token)), weights_out=weights_out)

    @property
    def mask(self) -> Bool[Tensor, "M 1 1 S"]:
        """True at the keys that queries attend to."""
        return self.is_token[:, None, None]

    def grouped(self, x: Float[Tensor, "B H T d"]) -> Float[Tensor, "M H G*T d"]:
        """The queries of rows, by source."""
        size, slots = self.groups
        heads, times, width = x.shape[1:]
        if slots is not None:
            x = x.new_zeros(len(self.is_token) * size, heads, times, width).index_copy(0, slots, x)
        if size == 1:
            return x
        return x.view(-1, size, heads, times, width).transpose(1, 2).flatten(2, 3)

    def of_rows(self, x: Float[Tensor, "M H G*T d"], times: int) -> Float[Tensor, "B H T d"]:
        """The inverse of `grouped`: results of each source, by row."""
        size, slots = self.groups
        if size > 1:
            x = x.view(*x.shape[:2], size, times, -1).transpose(1, 2).flatten(0, 1)
        return x if slots is None else x.index_select(0, slots)


class _Groups(NamedTuple):
    """size: rows for each source. slots: the slot of each row among them; None: in order, with no slot empty."""

    size: int
    slots: Int64[Tensor, " B"] | None


def _group(rows: Int64[Tensor, " B"], sources: int) -> _Groups:
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
